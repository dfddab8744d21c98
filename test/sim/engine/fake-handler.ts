// A fake handler of jobs: an attempt takes virtual time, and succeeds or fails. It reports launches and results to the simulation.

import type { AttemptResult } from "../../../src/core/model/change.ts"
import { HANDLER_EXECUTOR } from "../../../src/core/rules/jobs/job-workflow.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../../../src/executors/executor.ts"
import { Rng } from "../rng.ts"
import type { Simulation } from "../simulation.ts"
import type { EngineProcess } from "./engine-process.ts"
import { STATE_WHEN_STOPPED } from "./fake-executor.ts"

const FAILURE_RATE = 0.2
const SLOW_RATE = 0.2

export class FakeHandler implements Executor {
  readonly name = HANDLER_EXECUTOR
  readonly folderless = true
  readonly #simulation: Simulation
  readonly #process: EngineProcess

  constructor(simulation: Simulation, process: EngineProcess) {
    this.#simulation = simulation
    this.#process = process
  }

  async launch({ taskId: id, attemptId, attempt }: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const { signal } = context
    const { clock } = this.#process
    const rng = new Rng("job", this.#simulation.scenario.seed, id, attempt)
    const workMs = rng.chance(SLOW_RATE) ? rng.int(500, 15_000) : rng.int(0, 200)
    const state = rng.chance(FAILURE_RATE) ? "failed" : "success"
    this.#simulation.launchJob(this.#process, { id, attemptId, number: attempt })
    const startedAt = clock.now()
    context.started({ at: startedAt })
    const ended = await new Promise<AttemptResult["state"]>((resolve) => {
      clock.after(workMs, () => resolve(state))
      const stop = (): void => {
        const reason = signal.reason as StopReason
        this.#simulation.stopJob(this.#process, attemptId, reason)
        resolve(STATE_WHEN_STOPPED[reason])
      }
      if (signal.aborted) stop()
      else signal.addEventListener("abort", stop)
    })
    this.#simulation.jobs.addResult(attemptId)
    return {
      state: ended,
      startedAt,
      finishedAt: clock.now(),
      ...(ended !== "success" && { error: ended === "failed" ? "boom" : ended }),
    }
  }
}
