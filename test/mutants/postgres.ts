import { conformanceOf, type PlantedBug, SIM_ON_POSTGRES } from "./planted-bug.ts"

const conformance = conformanceOf("postgres")

export const POSTGRES_BUGS: PlantedBug[] = [
  // -- claims ----------------------------------------------------------------------------------------------------------------------
  {
    name: "postgres-lowest-priority-first",
    bug: "The lowest priority is claimed first.",
    edits: [
      {
        file: "src/store/postgres/claim/candidates.ts",
        find: 'q.lane, ${readyOrder("q")}',
        replace: "q.lane, q.priority, q.workflow_id, q.run_seq, q.id",
      },
    ],
    foundBy: SIM_ON_POSTGRES,
  },
  {
    name: "postgres-claims-cancelled",
    bug: "Tasks of a run that is being cancelled are claimed.",
    edits: [
      {
        file: "src/store/postgres/claim/candidates.ts",
        find: 'claimable: "r.cancelling IS NULL"',
        replace: 'claimable: "true"',
      },
    ],
    foundBy: conformance("cancel"),
  },
  {
    name: "postgres-ignores-pause",
    bug: "Tasks of a paused run are claimed.",
    edits: [
      {
        file: "src/store/postgres/claim/candidates.ts",
        find: "\"COALESCE(r.paused AND r.status = 'running' AND r.cancelling IS NULL, false)\"",
        replace: '"false"',
      },
    ],
    foundBy: SIM_ON_POSTGRES,
  },
  {
    name: "postgres-claim-uses-no-slot",
    bug: "A claim under a limit uses no slot.",
    edits: [
      {
        file: "src/store/postgres/claim/claim-limited.ts",
        find: "UPDATE limits l SET used = l.used + c.slots",
        replace: "UPDATE limits l SET used = l.used",
      },
    ],
    foundBy: SIM_ON_POSTGRES,
  },
  {
    name: "postgres-frees-limit-twice",
    bug: "A freed slot is counted twice.",
    edits: [
      {
        file: "src/store/postgres/claim/limits.ts",
        find: "used = GREATEST(l.used - c.slots, 0)",
        replace: "used = GREATEST(l.used - 2 * c.slots, 0)",
      },
    ],
    foundBy: SIM_ON_POSTGRES,
  },
  {
    name: "postgres-does-not-unpark",
    bug: "A freed slot unparks nothing.",
    edits: [
      {
        file: "src/store/postgres/claim/limits.ts",
        find: 'ORDER BY ${claimOrder("p")} LIMIT l.rows',
        replace: 'ORDER BY ${claimOrder("p")} LIMIT 0',
      },
    ],
    foundBy: SIM_ON_POSTGRES,
  },
  {
    name: "postgres-unblocked-row-jumps-queue",
    bug: "A task is claimed by the statement that unblocks it although a queued task outranks it.",
    edits: [
      {
        file: "src/store/postgres/advance/finish-successes.ts",
        find: "const PRECEDES_READY = `(k.ready_empty OR NOT k.needs_round_robin AND",
        replace: "const PRECEDES_READY = `(true OR NOT k.needs_round_robin AND",
      },
    ],
    foundBy: conformance("unblock"),
  },
  // -- changes ---------------------------------------------------------------------------------------------------------------------
  {
    name: "postgres-drops-fence",
    bug: "A result is applied to a row that belongs to another attempt.",
    edits: [
      {
        file: "src/store/postgres/advance/finish-attempts.ts",
        find: "WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND CASE c.from_state",
        replace: "WHERE t.id = c.id AND CASE c.from_state",
      },
      {
        file: "src/store/postgres/advance/finish-successes.ts",
        find: "WHERE t.id = c.id AND t.attempt_id = c.attempt_id AND ${sourceState",
        replace: "WHERE t.id = c.id AND ${sourceState",
      },
    ],
    // The simulation seldom has a store that still caches an attempt which another one has reaped.
    foundBy: { tests: ["src/store/postgres/advance/finish-successes.test.ts"] },
  },
  {
    name: "postgres-unmet-counts-as-failed",
    bug: "A skipped upstream task counts as unmet although it failed.",
    edits: [
      {
        file: "src/store/postgres/advance/finish-attempts.ts",
        find: "(count(*) FILTER (WHERE f.upstream_outcome = 'failed'))::int AS failed",
        replace: "(count(*) FILTER (WHERE f.upstream_outcome IN ('failed', 'unmet')))::int AS failed",
      },
    ],
    foundBy: SIM_ON_POSTGRES,
  },
  {
    name: "postgres-unblocks-once",
    bug: "Two upstream tasks that finish in one batch are counted once.",
    edits: [
      {
        file: "src/store/postgres/advance/finish-successes.ts",
        find: "upstream_pending = GREATEST(t.upstream_pending - k.finished, 0)",
        replace: "upstream_pending = GREATEST(t.upstream_pending - LEAST(k.finished, 1), 0)",
      },
    ],
    foundBy: SIM_ON_POSTGRES,
  },
  {
    name: "postgres-miscounts-successes",
    bug: "Successes of one batch are counted once per run.",
    edits: [
      {
        file: "src/store/postgres/advance/finish-successes.ts",
        find: "tasks_success = r.tasks_success + e.tasks",
        replace: "tasks_success = r.tasks_success + LEAST(e.tasks, 1)",
      },
    ],
    foundBy: SIM_ON_POSTGRES,
  },
  {
    name: "postgres-gathers-too-early",
    bug: "A container is gathered before its last child has finished.",
    edits: [
      {
        file: "src/store/postgres/advance/count-down.ts",
        find: "t.children_pending = e.finished THEN 'pending'",
        replace: "t.children_pending <= e.finished + 1 THEN 'pending'",
      },
    ],
    foundBy: SIM_ON_POSTGRES,
  },
  {
    name: "postgres-loss-counts-as-failure",
    bug: "A lost attempt uses up a retry.",
    edits: [
      {
        file: "src/store/postgres/advance/attempt-changes.ts",
        find: "lost: lastChanges.map(({ lost }) => lost),",
        replace: "lost: lastChanges.map(() => false),",
      },
    ],
    foundBy: conformance("attempt"),
  },
  {
    name: "postgres-retries-early",
    bug: "A retry becomes ready five seconds before its time.",
    edits: [
      {
        file: "src/store/postgres/advance/timers.ts",
        find: "SELECT id FROM tasks WHERE available_at <= ${NOW} AND (",
        replace: "SELECT id FROM tasks WHERE available_at <= ${NOW} + interval '5 seconds' AND (",
      },
    ],
    foundBy: SIM_ON_POSTGRES,
  },
  {
    name: "postgres-forgets-retry-timer",
    bug: "The next due time does not include retries.",
    edits: [
      {
        file: "src/store/postgres/advance/timers.ts",
        find: "(SELECT min(available_at) FROM tasks WHERE available_at IS NOT NULL),",
        replace: "NULL::timestamptz,",
      },
    ],
    foundBy: conformance("retr"),
  },
  {
    name: "postgres-forgets-gate-hint",
    bug: "A turn that could not claim for the gate forgets that rows are ready for it.",
    edits: [
      {
        file: "src/store/postgres/advance/hints.ts",
        find: "gateReady: gateReady || gatesClaimed > 0 || (previous.gateReady && gateMaxClaims <= 0),",
        replace: "gateReady: gateReady || gatesClaimed > 0,",
      },
    ],
    foundBy: { tests: ["src/store/postgres/advance/hints.test.ts"] },
  },
  // -- waiting, cancels and closed runs ----------------------------------------------------------------------------------------------
  {
    name: "postgres-waiting-row-stays-in-flight",
    bug: "A task that starts to wait keeps its entry in the table of rows in flight.",
    edits: [
      {
        file: "src/store/postgres/advance/waiting.ts",
        find: '${deleteFrom("in_flight", "waiting")}',
        replace: '${deleteFrom("in_flight", "(SELECT * FROM waiting WHERE false)")}',
      },
    ],
    foundBy: SIM_ON_POSTGRES,
  },
  {
    name: "postgres-does-not-resume-parent",
    bug: "The end of a sub-workflow does not resume the task that waits for it.",
    edits: [
      {
        file: "src/store/postgres/advance/close-runs.ts",
        find: "requestResume(tx, parents)",
        replace: "requestResume(tx, parents.slice(0, 0))",
      },
    ],
    foundBy: SIM_ON_POSTGRES,
  },
  {
    name: "postgres-cancelled-task-waits",
    bug: "Waiting tasks are not resumed when their run is cancelled.",
    edits: [
      {
        file: "src/store/postgres/advance/cancel-pending.ts",
        find: "resumeCancelled(tx, runs)",
        replace: "resumeCancelled(tx, runs.slice(0, 0))",
      },
    ],
    foundBy: conformance("wait"),
  },
  {
    name: "postgres-cancel-leaves-ready-rows",
    bug: "A cancelled row stays in the ready queue.",
    edits: [
      {
        file: "src/store/postgres/advance/cancel-pending.ts",
        find: '${deleteFrom("ready_queue", "finished")}',
        replace: '${deleteFrom("ready_queue", "(SELECT * FROM finished WHERE false)")}',
      },
    ],
    foundBy: SIM_ON_POSTGRES,
  },
  // -- holders and retries of runs ---------------------------------------------------------------------------------------------------
  {
    name: "postgres-reaps-live-holders",
    bug: "Holders whose leases are valid count as dead.",
    edits: [
      {
        file: "src/store/postgres/admin/lease-holders.ts",
        find: "(h.lease_until < ${NOW} OR NOT ${KEY_IS_VALID})`",
        replace: "(h.lease_until < ${NOW} + interval '8 seconds' OR NOT ${KEY_IS_VALID})`",
      },
    ],
    foundBy: SIM_ON_POSTGRES,
  },
  {
    name: "postgres-keeps-old-hooks",
    bug: "A retry keeps the hooks of the earlier end of the run.",
    edits: [
      {
        file: "src/store/postgres/runs/retry.ts",
        find: "if (hooks.length > 0) await tx.run(DELETE_HOOKS",
        replace: "if (hooks.length > 99) await tx.run(DELETE_HOOKS",
      },
    ],
    foundBy: SIM_ON_POSTGRES,
  },
  {
    name: "postgres-keeps-created-jobs-to-itself",
    bug: "A turn that creates jobs does not wake other stores for those that it leaves.",
    edits: [{ file: "src/store/postgres/advance/advance.ts", find: "created.length + unparked +", replace: "unparked +" }],
    foundBy: { tests: ["src/store/postgres/jobs/jobs.test.ts"] },
  },
  {
    name: "postgres-released-job-starts-late",
    bug: "A job whose first claim is released after its time starts late.",
    edits: [
      {
        file: "src/store/postgres/advance/attempt-changes.ts",
        find: "available_at = CASE WHEN ${IS_RELEASED_LATE} THEN ${NOW} ELSE t.available_at END",
        replace: "available_at = t.available_at",
      },
    ],
    foundBy: conformance("expiring job"),
  },
  {
    name: "postgres-trusts-cache-after-lost-commit",
    bug: "A store that did not learn the outcome of a commit frees the slots of a waiting attempt twice.",
    edits: [
      {
        file: "src/store/postgres/advance/advance-connection.ts",
        find: "for (const { attemptId } of batch.changes) inFlight.delete(attemptId)",
        replace: "",
      },
    ],
    foundBy: { tests: ["src/store/postgres/postgres.test.ts", "-t", "reply to a COMMIT"] },
  },
  {
    name: "postgres-rejects-finish-beside-wait",
    bug: "A callback is rejected when the wait of its attempt is sent again in the same batch.",
    edits: [
      {
        file: "src/store/postgres/advance/coalesce-changes.ts",
        find: "if (attempt.last !== null) return replacesWait(attempt, change)",
        replace: "if (attempt.last !== null) return false",
      },
    ],
    foundBy: conformance("a row that waits"),
  },
  {
    name: "postgres-follows-run-that-exists-not",
    bug: "A run that depends on an earlier run of its call, which exists under another id, starts at once.",
    edits: [
      {
        file: "src/store/postgres/runs/create.ts",
        find: "await followExisting(tx, held, newSeqs, existing)",
        replace: "",
      },
    ],
    foundBy: conformance("depends on the past"),
  },
  {
    name: "postgres-keeps-replaced-transaction",
    bug: "A txTask that a user runs again returns the result of its earlier transaction.",
    edits: [
      {
        file: "src/store/postgres/advance/expand.ts",
        find: '${FORGET_TRANSACTIONS("old")}',
        replace: "SELECT 1",
      },
    ],
    foundBy: { tests: ["src/sdk/transactions.test.ts", "-t", "retried from it"] },
  },
  {
    name: "postgres-trusts-key-of-deleted-job",
    bug: "The creation of a job fails when another transaction deletes the job that has its key.",
    edits: [
      {
        file: "src/store/postgres/jobs/create.ts",
        find: "if (repeated.every((id) => existing.has(id) || isFresh(id))) return { plan, existing }",
        replace: "return { plan, existing }",
      },
    ],
    foundBy: { tests: ["src/store/postgres/jobs/jobs.test.ts"] },
  },
  {
    name: "postgres-removes-awaited-run",
    bug: "Retention removes the run of a sub-workflow before its parent has seen its end.",
    edits: [
      {
        file: "src/store/postgres/runs/retention.ts",
        find: "OR position > :keep::bigint) AND NOT ${IS_AWAITED}",
        replace: "OR position > :keep::bigint)",
      },
    ],
    foundBy: conformance("a child run"),
  },
]
