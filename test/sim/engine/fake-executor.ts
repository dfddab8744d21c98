// A fake executor: tasks take virtual time, fail, hang, ignore a stop, report their start late or twice. It reports launches, stops and
// results to the simulation.

import type { AttemptResult } from "../../../src/core/model/change.ts"
import type { Clock } from "../../../src/core/model/ports.ts"
import type { AttemptState } from "../../../src/core/model/status.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../../../src/executors/executor.ts"
import { describeTask, type LaunchedAttempt } from "../checks/attempt-log.ts"
import { type Behaviour, planBehaviour } from "../scenario/task-behaviour.ts"
import type { Simulation } from "../simulation.ts"
import type { EngineProcess } from "./engine-process.ts"

export const STATE_WHEN_STOPPED = {
  cancel: "cancelled",
  timeout: "timeout",
  shutdown: "lost",
  lost: "lost",
} as const satisfies Record<StopReason, AttemptState>

type Ending = Pick<AttemptResult, "state"> & Partial<AttemptResult>

export class FakeExecutor implements Executor {
  readonly name = "fake"
  readonly #simulation: Simulation
  readonly #process: EngineProcess
  readonly #clock: Clock

  constructor(simulation: Simulation, process: EngineProcess) {
    this.#simulation = simulation
    this.#process = process
    this.#clock = process.clock
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const attempt = this.#simulation.launch(this.#process, assignment)
    const { run, path, number, workflow, simNode } = attempt
    const task = { run, path, attempt: number, count: assignment.parallelCount }
    const behaviour = planBehaviour(this.#simulation.scenario.seed, workflow.rates, simNode, task)
    const result = await this.#execute(attempt, behaviour, context)
    if (result.state === "success") await this.#addOutput(result, attempt, behaviour, assignment)
    this.#simulation.finish(attempt, result)
    if (behaviour.repeatedStart === "after the end") this.#clock.after(20, () => context.started({ at: this.#clock.now() }))
    return result
  }

  async #addOutput(
    result: AttemptResult,
    { id, simNode }: LaunchedAttempt,
    { output }: Behaviour,
    assignment: Assignment,
  ): Promise<void> {
    if (simNode.waitPlan?.kind === "defer") {
      this.#simulation.callbackTokens.set(id, assignment.callback!()["ORK_CALLBACK_TOKEN"]!)
      result.output = { inline: { ork_defer: { callback: {} } } }
      return
    }
    if (output === undefined) return
    if (!simNode.largeOutput) {
      result.output = { inline: output }
      return
    }
    const key = `${assignment.prefix}output.json`
    const text = JSON.stringify(output)
    await this.#simulation.objects.put(key, text)
    result.output = { key, bytes: text.length }
  }

  #execute(attempt: LaunchedAttempt, behaviour: Behaviour, context: LaunchContext): Promise<AttemptResult> {
    const clock = this.#clock
    return new Promise<AttemptResult>((resolve) => {
      const timers: (() => void)[] = []
      let startedAt: number | null = null
      let finished = false
      const finish = (ending: Ending): void => {
        if (finished) return
        finished = true
        for (const cancel of timers) cancel()
        context.signal.removeEventListener("abort", stop)
        resolve({ startedAt, finishedAt: clock.now(), ...ending })
      }
      const start = (): void => {
        attempt.startedAt ??= clock.monotonic()
        startedAt ??= clock.now()
        context.started({ at: startedAt, externalId: `x-${attempt.number}` })
      }
      const stop = (): void => {
        const reason = context.signal.reason as StopReason
        this.#simulation.stop(attempt, reason)
        const { ms, how } = behaviour.whenStopped
        timers.push(
          clock.after(ms, () => {
            if (how === "succeed") finish({ state: "success", exitCode: 0 })
            else finish({ state: STATE_WHEN_STOPPED[reason], error: `stopped: ${reason}` })
          }),
        )
      }
      if (behaviour.startMs !== null) timers.push(clock.after(behaviour.startMs, start))
      if (behaviour.repeatedStart === "soon") timers.push(clock.after((behaviour.startMs ?? 0) + 5, start))
      if (behaviour.workMs !== null) {
        timers.push(clock.after((behaviour.startMs ?? 0) + behaviour.workMs, () => finish(plannedEnding(behaviour))))
      }
      if (context.signal.aborted) stop()
      else context.signal.addEventListener("abort", stop)
    })
  }
}

const plannedEnding = ({ outcome, retryAfterMs }: Behaviour): Ending => {
  switch (outcome) {
    case "success":
      return { state: "success", exitCode: 0 }
    case "failure":
      return { state: "failed", exitCode: 1, error: "boom", ...(retryAfterMs !== null && { retryAfterMs }) }
    case "permanent failure":
      return { state: "failed", exitCode: 2, error: "cannot succeed", retryable: false }
    default:
      return outcome satisfies never
  }
}

export const describeResult = (attempt: LaunchedAttempt, result: AttemptResult): string =>
  `${describeTask(attempt)} #${attempt.number} ends: ${result.state}${result.output === undefined ? "" : " with output"}`
