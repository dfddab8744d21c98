// A fake executor: tasks take virtual time, fail, hang, ignore their stop, report late or twice. It keeps the witness's books.

import type { AttemptResult } from "../../../src/core/model/change.ts"
import type { AttemptState } from "../../../src/core/model/status.ts"
import type { Clock } from "../../../src/core/model/ports.ts"
import type { Assignment, Executor, LaunchContext, StopReason } from "../../../src/executors/executor.ts"
import { behave, type Behaviour } from "../scenario/task-behaviour.ts"
import type { MemoryObjects } from "./memory-objects.ts"
import { type Incarnation, placeText, type Witnessed } from "../checks/attempt-log.ts"
import type { World } from "../simulation.ts"

const STOPPED = {
  cancel: "cancelled",
  timeout: "timeout",
  shutdown: "lost",
  lost: "lost",
} as const satisfies Record<StopReason, AttemptState>

export class FakeExecutor implements Executor {
  readonly name = "fake"
  readonly #world: World
  readonly #incarnation: Incarnation
  readonly #clock: Clock
  readonly #objects: MemoryObjects

  constructor(world: World, incarnation: Incarnation, clock: Clock, objects: MemoryObjects) {
    this.#world = world
    this.#incarnation = incarnation
    this.#clock = clock
    this.#objects = objects
  }

  async launch(assignment: Assignment, context: LaunchContext): Promise<AttemptResult> {
    const attempt = this.#world.launch(this.#incarnation, assignment)
    const place = { run: attempt.run, path: attempt.path, attempt: attempt.number, count: assignment.parallelCount }
    const behaviour = behave(this.#world.scenario.seed, attempt.workflow.mood, attempt.sim, place)
    const result = await this.#play(attempt, behaviour, context)
    if (result.state === "success" && attempt.sim.waits?.kind === "defer") {
      this.#world.tokens.set(attempt.id, assignment.callback!()["ORK_CALLBACK_TOKEN"]!)
      result.output = { inline: { ork_defer: { callback: {} } } }
    } else if (result.state === "success" && behaviour.output !== undefined) {
      if (attempt.sim.largeOutput) {
        const key = `${assignment.prefix}output.json`
        const text = JSON.stringify(behaviour.output)
        await this.#objects.put(key, text)
        result.output = { key, bytes: text.length }
      } else {
        result.output = { inline: behaviour.output }
      }
    }
    this.#world.finish(attempt, result)
    if (behaviour.doubled === "late") this.#clock.after(20, () => context.started({ at: this.#clock.now() }))
    return result
  }

  #play(attempt: Witnessed, behaviour: Behaviour, context: LaunchContext): Promise<AttemptResult> {
    const clock = this.#clock
    return new Promise<AttemptResult>((resolve) => {
      const timers: (() => void)[] = []
      let over = false
      const end = (result: Pick<AttemptResult, "state"> & Partial<AttemptResult>): void => {
        if (over) return
        over = true
        for (const cancel of timers) cancel()
        context.signal.removeEventListener("abort", stop)
        resolve({ startedAt: attempt.startedAt, finishedAt: clock.now(), ...result })
      }
      const start = (): void => {
        attempt.startedAt ??= clock.now()
        context.started({ at: attempt.startedAt, externalId: `x-${attempt.number}` })
      }
      const stop = (): void => {
        const reason = context.signal.reason as StopReason
        this.#world.stopping(attempt, reason)
        const { ms, how } = behaviour.abort
        timers.push(
          clock.after(ms, () => {
            if (how === "succeed") end({ state: "success", exitCode: 0 })
            else end({ state: STOPPED[reason], error: `stopped: ${reason}` })
          }),
        )
      }
      if (behaviour.startMs !== null) timers.push(clock.after(behaviour.startMs, start))
      if (behaviour.doubled === "start") timers.push(clock.after((behaviour.startMs ?? 0) + 5, start))
      if (behaviour.workMs !== null) {
        timers.push(clock.after((behaviour.startMs ?? 0) + behaviour.workMs, () => end(naturalEnd(behaviour))))
      }
      if (context.signal.aborted) stop()
      else context.signal.addEventListener("abort", stop)
    })
  }
}

const naturalEnd = ({ outcome, retryAfterMs }: Behaviour): Pick<AttemptResult, "state"> & Partial<AttemptResult> => {
  switch (outcome) {
    case "success":
      return { state: "success", exitCode: 0 }
    case "failed":
      return { state: "failed", exitCode: 1, error: "boom", ...(retryAfterMs !== null && { retryAfterMs }) }
    case "hopeless":
      return { state: "failed", exitCode: 2, error: "hopeless", retryable: false }
    default:
      return outcome satisfies never
  }
}

export const describeResult = (attempt: Witnessed, result: AttemptResult): string =>
  `${placeText(attempt)} #${attempt.number} ends: ${result.state}${result.output === undefined ? "" : " with output"}`
