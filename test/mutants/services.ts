// Bugs in what starts, watches and removes work besides the engine's loop: schedules, triggers, conditions, retention and jobs.

import { conformanceOf, type PlantedBug, SIM_ON_SQLITE } from "./planted-bug.ts"

export const SERVICE_BUGS: PlantedBug[] = [
  {
    name: "service-skip-overlaps",
    bug: "A tick with overlap skip starts a run although another one is active.",
    edits: [
      {
        file: "src/engine/services/scheduler.ts",
        find: "skipped: i === 0 && active === undefined ? null :",
        replace: "skipped: i === 0 ? null :",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-catches-up-latest-only",
    bug: "A schedule with catchup all runs the latest missed tick only.",
    edits: [{ file: "src/core/time/schedule.ts", find: "return due.slice(-MAX_CATCHUP)", replace: "return due.slice(-1)" }],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-cancel-leaves-run",
    bug: "A tick with overlap cancel leaves the run of the tick before it running.",
    edits: [
      {
        file: "src/engine/services/scheduler.ts",
        find: 'if (schedule.spec.overlap === "cancel") await',
        replace: 'if (schedule.spec.overlap === "cancel" && ticks.length > 99) await',
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-passes-tick-of-clock-set-back",
    bug: "A tick that was due before the clock was set back counts as passed when it comes again.",
    edits: [
      {
        file: "src/engine/services/scheduler.ts",
        find: "found.filter(({ nextAt }) => Date.parse(nextAt!) <= now)",
        replace: "found.filter(({ nextAt }) => nextAt !== null)",
      },
    ],
    foundBy: { tests: ["test/engine/schedules.test.ts"] },
  },
  {
    name: "service-failure-starts-follower",
    bug: "A workflow that starts after successes of others starts after a failure too.",
    edits: [
      {
        file: "src/store/sqlite/advance/close-runs.ts",
        find: 'if (status === "success" && !run.private) recordTriggerSuccess(tx, seq)',
        replace: 'if (status !== "cancelled" && !run.private) recordTriggerSuccess(tx, seq)',
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-failed-check-ends-wait",
    bug: "A check that fails counts as a condition that holds.",
    edits: [
      {
        file: "src/engine/waiting/watches.ts",
        find: "finding = { met: false, seen: messageOf(error) }",
        replace: "finding = { met: true, output: null }",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-removes-young-runs",
    bug: "Retention removes ended runs of any age.",
    edits: [
      {
        file: "src/store/sqlite/runs/retention.ts",
        find: "iso(context.clock.now() - query.olderThanMs)",
        replace: "iso(context.clock.now())",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-job-ignores-dependencies",
    bug: "A job starts when the first of its dependencies has completed.",
    edits: [
      {
        file: "src/core/rules/jobs/job-plan.ts",
        find: 'const pending = new Set(dependencies.filter((id) => statuses.get(id) !== "COMPLETED")).size',
        replace: 'const pending = Math.min(1, new Set(dependencies.filter((id) => statuses.get(id) !== "COMPLETED")).size)',
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-job-ignores-key",
    bug: "A second job with the same key is created.",
    edits: [
      {
        file: "src/core/rules/jobs/job-plan.ts",
        find: "const found = key === null ? undefined : existing.get(key)",
        replace: "const found = key === null || existing.size > 0 ? undefined : existing.get(key)",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-job-ignores-limit",
    bug: "Jobs with the same concurrency key run at once.",
    edits: [
      {
        file: "src/store/sqlite/jobs/insert.ts",
        find: "const limits = limitText(tx.limits.ensure(jobLimits(job)))",
        replace: "const limits = limitText(tx.limits.ensure(jobLimits(job).slice(1)))",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-queue-ignores-pause",
    bug: "A paused queue starts rows.",
    edits: [
      {
        file: "src/core/rules/claims/queue-budget.ts",
        find: "if (paused) return 0",
        replace: "if (paused && slots === 0) return 0",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-queue-ignores-concurrency",
    bug: "A queue starts one row more than its concurrency allows.",
    edits: [
      {
        file: "src/store/sqlite/cache/queue-budget.ts",
        find: "return availableStarts(queue, slots)",
        replace: "return availableStarts(queue, slots + 1)",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-queue-ignores-rate",
    bug: "A queue starts more rows than its rate allows.",
    edits: [
      {
        file: "src/core/rules/claims/queue-budget.ts",
        find: "Math.floor(bucket.tokens)",
        replace: "Math.ceil(bucket.tokens + 1)",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-job-starts-after-expiry",
    bug: "A job that should have expired starts.",
    edits: [
      {
        file: "src/store/sqlite/jobs/expiry.ts",
        find: "if (!hasNotStarted(row)) continue",
        replace: "if (row.attempt >= 0) continue",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-released-job-never-expires",
    bug: "A job whose first claim is released after its time starts late (SQLite).",
    edits: [
      {
        file: "src/store/sqlite/jobs/expiry.ts",
        find: "if (hasExpiryPassed(tx, row)) expireJobs",
        replace: "if (row < 0 && hasExpiryPassed(tx, row)) expireJobs",
      },
    ],
    foundBy: conformanceOf("sqlite")("expiring job"),
  },
  {
    name: "service-claims-job-whose-expiry-no-turn-expected",
    bug: "A job that expired since the last turn starts (Postgres).",
    edits: [
      {
        file: "src/store/postgres/advance/advance.ts",
        find: "work.some(({ id }) => expiredRows.includes(id))",
        replace: "work.some(({ id }) => id < 0 && expiredRows.includes(id))",
      },
    ],
    foundBy: conformanceOf("postgres")("expiring job"),
  },
  {
    name: "service-claims-beside-unhandled-expiries",
    bug: "A job starts although it is among more expired jobs than one turn fails (SQLite).",
    edits: [
      {
        file: "src/store/sqlite/advance/advance.ts",
        find: "const claim = fired.expiredRowsLeft ?",
        replace: "const claim = fired.expiredRowsLeft && work.maxClaims < 0 ?",
      },
    ],
    foundBy: conformanceOf("sqlite")("expiring job"),
  },
  {
    name: "service-job-ignores-timeout",
    bug: "A job runs longer than the timeout that it was given.",
    edits: [{ file: "src/core/rules/jobs/job-workflow.ts", find: "...(timeoutMs !== null && { timeoutMs }),", replace: "" }],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-job-starts-after-delete",
    bug: "A deleted job is still in the ready queue.",
    edits: [
      {
        file: "src/store/sqlite/jobs/jobs.ts",
        find: "  deleteRow(tx, row.id)\n  const effects",
        replace: "  if (row.id < 0) deleteRow(tx, row.id)\n  const effects",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-job-loses-edit",
    bug: "An edited job runs with its old payload.",
    edits: [
      {
        file: "src/store/sqlite/jobs/jobs.ts",
        find: "    job.queue,\n    JSON.stringify(job.payload),",
        replace: "    job.queue,\n    JSON.stringify(before.payload),",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-job-starts-after-cancel",
    bug: "A cancelled job is still in the ready queue.",
    edits: [
      {
        file: "src/store/sqlite/jobs/jobs.ts",
        find: "tx.db.run(CANCEL, JOB_CANCELLED, tx.at, row.id)",
        replace: "tx.db.run(CANCEL, JOB_CANCELLED, tx.at, -row.id)",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "service-forgets-failed-pass",
    bug: "A pass of a service that fails right after one that planned nothing is not repeated.",
    edits: [
      {
        file: "src/engine/services/due-loop.ts",
        find: "let dueMs: number | null = null",
        replace: "let dueMs: number | null = RETRY_MS",
      },
      { file: "src/engine/services/due-loop.ts", find: "      dueMs = RETRY_MS\n", replace: "" },
    ],
    foundBy: { tests: ["src/engine/services/due-loop.test.ts"] },
  },
  {
    name: "service-fires-outdated-ticks",
    bug: "A server fires the later ticks of a plan whose first tick another server has fired.",
    edits: [
      {
        file: "src/store/shared/schedules.ts",
        find: "first.get(scheduleId) === nextAt.get(scheduleId)",
        replace: "first.has(scheduleId)",
      },
    ],
    foundBy: { tests: ["src/store/postgres/conformance.test.ts", "-t", "schedules"] },
  },
  {
    name: "service-removes-retried-job",
    bug: "Retention removes a job that was retried after retention had listed it.",
    edits: [
      {
        file: "src/engine/services/retention.ts",
        find: "store.deleteJob(id, olderThanMs)",
        replace: "store.deleteJob(id)",
      },
    ],
    foundBy: { tests: ["src/engine/services/retention.test.ts"] },
  },
  {
    name: "service-retention-wakes-nobody",
    bug: "A run that waited for the success of a removed run starts, but nobody claims its tasks.",
    edits: [
      {
        file: "src/engine/services/housekeeping.ts",
        find: "removeOldRuns(this.#options, rule, this.#stopped.signal).finally(wake)",
        replace: "removeOldRuns(this.#options, rule, this.#stopped.signal)",
      },
    ],
    foundBy: { tests: ["test/engine/retention.test.ts"] },
  },
  {
    name: "service-retention-ends-at-stuck-run",
    bug: "A run whose files cannot be removed keeps retention from removing others.",
    edits: [
      {
        file: "src/engine/services/retention.ts",
        find: "if (error instanceof FolderLeft) return error.message",
        replace: "",
      },
    ],
    foundBy: { tests: ["src/engine/services/retention.test.ts"] },
  },
]
