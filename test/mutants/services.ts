// Bugs in what starts, watches and removes work besides the engine's loop: schedules, triggers, conditions, retention and jobs.

import { type PlantedBug, SIM_ON_SQLITE } from "./planted-bug.ts"

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
]
