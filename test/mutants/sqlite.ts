import { conformanceOf, type PlantedBug, SIM_ON_SQLITE } from "./planted-bug.ts"

const conformance = conformanceOf("sqlite")

export const SQLITE_BUGS: PlantedBug[] = [
  {
    name: "sqlite-drops-fence",
    bug: "A change is applied to a row that belongs to another attempt.",
    edits: [
      {
        file: "src/store/sqlite/advance/apply-changes.ts",
        find: 'if (row === undefined || row.attemptId !== change.attemptId || !isLegal(change.kind, row)) return "mismatch"',
        replace: 'if (row === undefined || !isLegal(change.kind, row)) return "mismatch"',
      },
      {
        file: "src/store/sqlite/advance/apply-changes.ts",
        find: "WHERE id = ? AND attempt_id = ? AND status = ? AND waiting_on IS NULL`",
        replace: "WHERE id = ? AND (attempt_id = ? OR true) AND status = ? AND waiting_on IS NULL`",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "sqlite-skip-does-not-unblock",
    bug: "A skipped task does not count down its downstream tasks.",
    edits: [
      {
        file: "src/store/sqlite/advance/batch-effects.ts",
        find: "if (!isJobRow(row.runSeq)) this.#collectEdges(row, status, skipReason)",
        replace: 'if (!isJobRow(row.runSeq) && status !== "skipped") this.#collectEdges(row, status, skipReason)',
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "sqlite-does-not-resume-parent",
    bug: "The end of a sub-workflow does not resume the task that waits for it.",
    edits: [
      {
        file: "src/store/sqlite/advance/close-runs.ts",
        find: "  if (parent !== null) requestResume(tx, parent)\n",
        replace: "",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "sqlite-frees-limit-twice",
    bug: "A freed slot is counted twice.",
    edits: [
      {
        file: "src/store/sqlite/advance/batch-effects.ts",
        find: "for (const [id, slots] of this.#freedSlots) limits.free(id, slots)",
        replace: "for (const [id, slots] of this.#freedSlots) limits.free(id, 2 * slots)",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "sqlite-gathers-too-early",
    bug: "A group or a fan-out is gathered before its last child has finished.",
    edits: [
      {
        file: "src/store/sqlite/advance/batch-effects.ts",
        find: "status = CASE WHEN status = 'running' AND children_pending = ?1 THEN 'pending' ELSE status END",
        replace: "status = CASE WHEN status = 'running' AND children_pending <= ?1 + 1 THEN 'pending' ELSE status END",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "sqlite-retried-items-ignore-limit",
    bug: "Group items that a retry continues do not wait for a slot.",
    edits: [
      {
        file: "src/store/sqlite/runs/reopen.ts",
        find: 'else continued.push({ id, node: reset.node, kind, needsSlots: kind === "group" && limited === 1 })',
        replace: 'else continued.push({ id, node: reset.node, kind, needsSlots: kind === "group" && limited === 2 })',
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "sqlite-ignores-pause",
    bug: "Tasks of a paused run are claimed.",
    edits: [
      {
        file: "src/store/sqlite/claim/candidates.ts",
        find: 'childrenPending: c[14] }) !== "claim",',
        replace: 'childrenPending: c[14] }) === "leave",',
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "sqlite-keeps-old-hooks",
    bug: "A retry keeps the hooks of the earlier end of the run.",
    edits: [{ file: "src/store/sqlite/runs/retry.ts", find: "  deleteHooks(tx, seq)\n", replace: "" }],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "sqlite-waiting-task-keeps-slot",
    bug: "A task that defers its work keeps its slots.",
    edits: [
      {
        file: "src/store/sqlite/advance/waiting.ts",
        find: "  if (!isFromGate && !row.isWaiting) effects.free(row)\n",
        replace: "",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "sqlite-does-not-unpark",
    bug: "A freed slot unparks nothing.",
    edits: [
      {
        file: "src/store/sqlite/advance/batch-effects.ts",
        find: "    for (const [id, slots] of this.#freedSlots) add(this.#unusedSlots, id, slots)\n",
        replace: "",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "sqlite-cancelled-task-waits",
    bug: "Waiting tasks are not resumed when their run is cancelled.",
    edits: [
      {
        file: "src/store/sqlite/advance/cancel-pending.ts",
        find: "    left -= resumeCancelled(tx, run.seq, left)\n",
        replace: "",
      },
    ],
    foundBy: conformance("wait"),
  },
  {
    name: "sqlite-loss-counts-as-failure",
    bug: "A lost attempt uses up a retry.",
    edits: [
      {
        file: "src/store/sqlite/advance/apply-changes.ts",
        find: "tx.db.run(RETRY, availableAt, lost ? 0 : 1, lost ? 1 : 0, result.state, error, exitCode, row.id, change.attemptId)",
        replace: "tx.db.run(RETRY, availableAt, 1, lost ? 1 : 0, result.state, error, exitCode, row.id, change.attemptId)",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "sqlite-lowest-priority-first",
    bug: "The lowest priority is claimed first.",
    edits: [
      {
        file: "src/store/sqlite/claim/candidates.ts",
        find: "const TOP_PRIORITY = `SELECT priority FROM tasks INDEXED BY tasks_ready WHERE ${READY} AND lane = ? ORDER BY priority DESC LIMIT 1`",
        replace:
          "const TOP_PRIORITY = `SELECT priority FROM tasks INDEXED BY tasks_ready WHERE ${READY} AND lane = ? ORDER BY priority LIMIT 1`",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "sqlite-retry-keeps-slot",
    bug: "An attempt that is retried keeps its slots.",
    edits: [
      {
        file: "src/store/sqlite/advance/apply-changes.ts",
        find: "  row.attemptId = null\n  if (!row.isWaiting) effects.free(row)\n",
        replace: "  row.attemptId = null\n",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "sqlite-reaps-live-holders",
    bug: "Other holders count as dead although they are alive.",
    edits: [
      {
        file: "src/store/sqlite/admin/lease-holders.ts",
        find: "for (const holder of listHolders(tx)) if (!holder.dead && hasDied(holder)) tx.db.run(MARK_DEAD, holder.id)",
        replace:
          "const holders = listHolders(tx)\n  for (const holder of holders) if (!holder.dead && (hasDied(holder) || holder.id !== holders.at(-1)!.id)) tx.db.run(MARK_DEAD, holder.id)",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "sqlite-retries-at-once",
    bug: "A failed attempt is retried without its delay.",
    edits: [
      {
        file: "src/store/sqlite/advance/apply-changes.ts",
        find: "const availableAt = change.delayMs > 0 ? tx.iso(tx.now + change.delayMs) : null",
        replace: "const availableAt = change.delayMs > 5000 ? tx.iso(tx.now + change.delayMs) : null",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "sqlite-keeps-work-to-itself",
    bug: "A commit that creates jobs, and claims some of them, does not wake other processes.",
    edits: [
      {
        file: "src/store/sqlite/advance/advance.ts",
        find: "tx.wake.noteRowsClaimed(() => hasReadyRows(tx))",
        replace: "tx.wake.noteRowsClaimed(() => false)",
      },
    ],
    foundBy: { tests: ["src/store/sqlite/sqlite.test.ts", "-t", "creates a job and claims it"] },
  },
  {
    name: "sqlite-follows-run-that-exists-not",
    bug: "A run that depends on an earlier run of its call, which exists under another id, starts at once.",
    edits: [
      {
        file: "src/store/sqlite/runs/create.ts",
        find: "(ids.get(previousRun) ?? previousRun)",
        replace: "previousRun",
      },
    ],
    foundBy: conformance("depends on the past"),
  },
  {
    name: "sqlite-keeps-replaced-transaction",
    bug: "A txTask that a user runs again returns the result of its earlier transaction.",
    edits: [
      {
        file: "src/store/sqlite/runs/reopen.ts",
        find: "if (!durable) tx.db.run(FORGET_TRANSACTION, id)",
        replace: "",
      },
    ],
    foundBy: { tests: ["src/sdk/transactions.test.ts", "-t", "retried from it"] },
  },
  {
    name: "sqlite-removes-awaited-run",
    bug: "Retention removes the run of a sub-workflow before its parent has seen its end.",
    edits: [
      {
        file: "src/store/sqlite/runs/retention.ts",
        find: "(finished_at < ?1 OR position > ?2) AND NOT ${IS_AWAITED}",
        replace: "(finished_at < ?1 OR position > ?2)",
      },
    ],
    foundBy: conformance("a child run"),
  },
]
