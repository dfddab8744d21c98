import { type PlantedBug, SIM_ON_SQLITE } from "./planted-bug.ts"

export const CORE_BUGS: PlantedBug[] = [
  {
    name: "core-instance-gets-item-of-neighbour",
    bug: "An instance of a fan-out gets the item of its neighbour.",
    edits: [
      {
        file: "src/core/rules/changes/gate.ts",
        find: "foreach[Math.floor(index / perItem)]!",
        replace: "foreach[Math.floor((index + 1) / perItem) % foreach.length]!",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "core-none-failed-counts-unmet",
    bug: "run_when none_failed does not hold when an upstream task was skipped because of a failure.",
    edits: [
      {
        file: "src/core/rules/changes/gate.ts",
        find: "none_failed: (up) => up.failed === 0,",
        replace: "none_failed: (up) => unsuccessful(up) === 0,",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "core-unblocks-in-first-item",
    bug: "A task in a group unblocks the downstream tasks of the first item.",
    edits: [
      {
        file: "src/core/rules/changes/effects.ts",
        find: "return { node: below, path: row.path, outcome,",
        replace: 'return { node: below, path: row.path.replace(/\\d+$/, "0"), outcome,',
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "core-retries-success",
    bug: "A success is retried now and then.",
    edits: [
      {
        file: "src/core/rules/changes/decide.ts",
        find: 'return { ...fence, kind: "finish", status: "success", result }',
        replace:
          'return random < 0.05 ? { ...fence, kind: "retry", delayMs: 0, lost: false, result } : { ...fence, kind: "finish", status: "success", result }',
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "core-wrong-hooks",
    bug: "A cancelled run executes the hooks of a failed one.",
    edits: [
      {
        file: "src/core/rules/runs/new-rows.ts",
        find: 'cancelled: ["on_cancel", "on_exit"],',
        replace: 'cancelled: ["on_failure", "on_exit"],',
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "core-applies-result-twice",
    bug: "A result that arrives again is applied again.",
    edits: [
      {
        file: "src/core/rules/changes/transitions.ts",
        find: 'finish: { kinds: ["task"], from: IN_FLIGHT,',
        replace: 'finish: { kinds: ["task"], from: ["dispatched", "running", "success", "failed"],',
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
  {
    name: "core-one-active-run-too-many",
    bug: "max_active_runs admits one more run.",
    edits: [
      {
        file: "src/core/rules/runs/start.ts",
        find: "if (full.has(workflowId) || count >= maxActiveRuns) {",
        replace: "if (full.has(workflowId) || count > maxActiveRuns) {",
      },
    ],
    foundBy: SIM_ON_SQLITE,
  },
]
