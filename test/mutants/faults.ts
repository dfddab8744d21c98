// Bugs of the kinds that once reached users: stale inputs, clocks, long values, outages, limits of internal tables.

import type { PlantedBug } from "./planted-bug.ts"

export const FAULT_BUGS: PlantedBug[] = [
  {
    name: "fault-timeout-follows-time-of-day",
    bug: "A step of the clock times out running attempts.",
    edits: [
      {
        file: "src/engine/attempts/attempt-runner.ts",
        find: "Number.POSITIVE_INFINITY : this.#timing.clock.monotonic() + ms",
        replace: "Number.POSITIVE_INFINITY : this.#timing.clock.now() + ms",
      },
      {
        file: "src/engine/attempts/timeout-timer.ts",
        find: "    const now = this.#clock.monotonic()",
        replace: "    const now = this.#clock.now()",
      },
      {
        file: "src/engine/attempts/timeout-timer.ts",
        find: "Math.max(0, at - this.#clock.monotonic())",
        replace: "Math.max(0, at - this.#clock.now())",
      },
    ],
    foundBy: { tests: ["test/engine/attempts.test.ts"] },
  },
  {
    name: "fault-ticks-by-local-clock",
    bug: "A server whose clock is ahead fires ticks of the future.",
    edits: [
      {
        file: "src/engine/services/scheduler.ts",
        find: "const now = found.length === 0 ? 0 : await store.currentTime()",
        replace: "const now = this.#options.clock.now()",
      },
    ],
    foundBy: { tests: ["test/engine/schedules.test.ts"] },
  },
  {
    name: "fault-one-long-sleep",
    bug: "A schedule sleeps past its tick when the clock is set forward.",
    edits: [
      {
        file: "src/engine/services/due-loop.ts",
        find: "Math.min(Math.max(dueMs, MIN_SLEEP_MS), longestSleepMs(clock))",
        replace: "Math.max(dueMs, MIN_SLEEP_MS)",
      },
    ],
    foundBy: { tests: ["test/engine/schedules.test.ts"] },
  },
  {
    name: "fault-bad-schedule-blocks-others",
    bug: "One schedule that cannot be fired blocks its batch.",
    edits: [{ file: "src/engine/services/scheduler.ts", find: "if (due.length === 1) throw error", replace: "throw error" }],
    foundBy: { tests: ["test/engine/schedules.test.ts"] },
  },
  {
    name: "fault-long-key-in-index",
    bug: "A long concurrency_key is stored as it is, which an index of Postgres rejects.",
    edits: [{ file: "src/core/values/index-key.ts", find: "text.length <= MAX_LENGTH && text", replace: "text" }],
    foundBy: { tests: ["src/store/postgres/conformance.test.ts", "-t", "limit|key"] },
  },
  {
    name: "fault-fractional-times",
    bug: "Times of a worker with fractions of a millisecond reach the store.",
    edits: [
      {
        file: "src/core/rules/changes/clamp-change.ts",
        find: "if (isStorable(result)) return result",
        replace: "return result",
      },
    ],
    foundBy: { tests: ["src/core/rules/changes/clamp-change.test.ts"] },
  },
  {
    name: "fault-stale-upstream-file",
    bug: "A retried task reads the upstream output of the previous attempt.",
    edits: [
      {
        file: "src/engine/attempts/upstream-files.ts",
        find: ".update(JSON.stringify([...outputs]))",
        replace: ".update(JSON.stringify([...outputs].map(([name]) => name)))",
      },
    ],
    foundBy: { tests: ["src/engine/attempts/upstream-files.test.ts"] },
  },
  {
    name: "fault-stale-gathered-output",
    bug: "The gathered output of a fan-out has the same object key in every attempt.",
    edits: [
      {
        file: "src/engine/gate/gather.ts",
        find: "workflow.nodes[claim.node]!.name, claim.attemptId)",
        replace: 'workflow.nodes[claim.node]!.name, "gathered" as typeof claim.attemptId)',
      },
    ],
    foundBy: { tests: ["test/engine/fan-outs.test.ts"] },
  },
  {
    name: "fault-cache-without-copy",
    bug: "A cached output disappears with the run that produced it.",
    edits: [
      {
        file: "src/engine/attempts/cached-outputs.ts",
        find: "  return { key, bytes }\n}\n\n/** Returns the output of a task",
        replace: "  return { key: output.key, bytes }\n}\n\n/** Returns the output of a task",
      },
    ],
    foundBy: { tests: ["test/engine/attempts.test.ts"] },
  },
  {
    name: "fault-polls-wait-after-error",
    bug: "After an error, workers wait for work until their poll ends.",
    edits: [{ file: "src/engine/workers/claim-polls.ts", find: "      this.#wakeAfter(RETRY_MS)\n", replace: "" }],
    foundBy: { tests: ["src/engine/workers/claim-polls.test.ts"] },
  },
  {
    name: "fault-lease-waits-for-writers",
    bug: "A lease expires while long transactions hold the connections for writes.",
    edits: [
      {
        file: "src/store/postgres/postgres.ts",
        find: "leases.transaction((tx) => renewLease(newTx(tx, context), id, leaseMs))",
        replace: "write((tx) => renewLease(tx, id, leaseMs))",
      },
    ],
    foundBy: { tests: ["src/store/postgres/postgres.test.ts", "-t", "lease|wake", "--testTimeout", "8000"] },
  },
  {
    name: "fault-run-waits-for-itself",
    bug: "A sub-workflow waits for the end of the run that waits for it.",
    edits: [
      {
        file: "src/core/rules/runs/start.ts",
        find: "(workflow.maxActiveRuns !== undefined && parent?.withinSameWorkflow !== true)",
        replace: "workflow.maxActiveRuns !== undefined",
      },
    ],
    foundBy: { tests: ["test/engine/waiting.test.ts"] },
  },
  {
    name: "fault-outage-empties-queue",
    bug: "Jobs count as gone while Slurm's controller does not respond.",
    edits: [{ file: "src/executors/slurm/queue.ts", find: "if (errors.length > 0) {", replace: "if (errors.length > 99) {" }],
    foundBy: { tests: ["src/executors/slurm/queue.test.ts"] },
  },
  {
    name: "fault-store-outage-fails-tasks",
    bug: "An outage of Google Cloud Storage fails tasks after their first request.",
    edits: [
      { file: "src/objects/gcs/client.ts", find: "retryForMs = RETRY_FOR_MS,", replace: "retryForMs = RETRY_FOR_MS * 0," },
    ],
    foundBy: { tests: ["src/objects/gcs/gcs.test.ts"] },
  },
  {
    name: "fault-hanging-server-delays-heartbeat",
    bug: "A worker asks its servers one after another and loses its lease.",
    edits: [
      {
        file: "src/worker/connection/heartbeat-thread.ts",
        find: "setTimeout(askNext, everyMs / 4)",
        replace: "setTimeout(askNext, everyMs * 4)",
      },
    ],
    foundBy: { tests: ["src/worker/connection/heartbeat.test.ts"] },
  },
  {
    name: "fault-event-order",
    bug: "The event log orders transactions by the begin of their writes: a task may be dispatched before its upstream has ended.",
    edits: [
      {
        file: "src/store/postgres/schema/001-initial.ts",
        find: "pg_current_xact_id()::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)",
        replace: "pg_current_xact_id()::text::bigint)",
      },
    ],
    foundBy: { tests: ["src/store/postgres/advance/event-log.test.ts"] },
  },
  {
    name: "fault-limit-removed-in-use",
    bug: "The limit of a concurrency key is removed while another transaction puts a job under it.",
    edits: [
      {
        file: "src/store/postgres/claim/limits.ts",
        find: "wanted.some(({ key }) => isKeyLimit(key)) ? pipelined(tx.run(SHARE_KEY_LIMITS)) : null",
        replace:
          "wanted.every(({ key }) => isKeyLimit(key) && key === SHARE_KEY_LIMITS.text) ? pipelined(tx.run(SHARE_KEY_LIMITS)) : null",
      },
    ],
    foundBy: { tests: ["src/store/postgres/postgres.test.ts", "-t", "several stores on one database"] },
  },
  {
    name: "fault-limit-of-retried-task",
    bug: "A retried task refers to the limit of its concurrency key, which may be removed.",
    edits: [
      {
        file: "src/store/sqlite/runs/reopen.ts",
        find: "limits = ${OWN_LIMITS}, parked = NULL, upstream_pending",
        replace: "parked = NULL, upstream_pending",
      },
    ],
    foundBy: { tests: ["src/store/sqlite/conformance.test.ts", "-t", "concurrency_key"] },
  },
  {
    name: "fault-lease-at-start",
    bug: "A starting server does not renew its lease while it looks for dead holders.",
    edits: [
      {
        file: "src/engine/loop/lease-holder.ts",
        find: 'if (store.usesLeases || holder.kind === "server") this.#scheduleRenewal()\n    this.#reaping = true',
        replace: "this.#reaping = true",
      },
      {
        file: "src/engine/loop/lease-holder.ts",
        find: "this.#reaping = false\n  }\n\n  /** Keeps the lease",
        replace: "this.#reaping = false\n    this.#scheduleRenewal()\n  }\n\n  /** Keeps the lease",
      },
    ],
    foundBy: { tests: ["src/engine/loop/lease-holder.test.ts"] },
  },
  {
    name: "fault-plans-of-empty-table",
    bug: "A connection keeps the plans of an empty table after the table has grown.",
    edits: [
      {
        file: "src/store/postgres/connection/plan-age.ts",
        find: "this.#outgrown ||= this.isSmall && bytes >= GROWN_BYTES",
        replace: "this.#outgrown ||= this.isSmall && bytes < 0",
      },
    ],
    foundBy: { tests: ["src/store/postgres/schema/plans.test.ts"] },
  },
  {
    name: "fault-result-of-any-last-task",
    bug: "The result of a graph is the output of the task that ended last, whatever the graph returns.",
    edits: [
      {
        file: "src/sdk/embedded/runs.ts",
        find: "if (task === graph?.result?.task) return valueAt",
        replace: "if (graph?.result != null) return valueAt",
      },
    ],
    foundBy: { tests: ["src/sdk/result-cost.test.ts"] },
  },
  {
    name: "fault-notification-per-instance",
    bug: "A fan-out sends a notification for each of its instances.",
    edits: [
      {
        file: "src/core/rules/runs/notifications.ts",
        find: 'status === "skipped" || isInstance(node, kind)',
        replace: 'status === "skipped"',
      },
    ],
    foundBy: { tests: ["src/store/sqlite/conformance.test.ts"] },
  },
]
