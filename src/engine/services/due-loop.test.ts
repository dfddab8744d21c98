import { expect, test } from "vitest"
import { DueLoop } from "./due-loop.ts"
import { timerClock } from "./testing.ts"
import type { Clock } from "../../core/model/ports.ts"

class Loop extends DueLoop {
  passes = 0
  /** Results of the passes, in order; null for later ones. */
  readonly #results: (() => Promise<number | null>)[]

  constructor(clock: Clock, results: (() => Promise<number | null>)[]) {
    const log = { info() {}, warn() {}, error() {} }
    super({ clock, log, store: { onWake() {} } }, "a pass failed; trying again")
    this.#results = results
  }

  protected override async pass(): Promise<number | null> {
    this.passes += 1
    return (await this.#results.shift()?.()) ?? null
  }
}

const setup = (results: (() => Promise<number | null>)[]) => {
  const { clock, timers } = timerClock()
  return { loop: new Loop(clock, results), timers }
}

const fails = async (): Promise<never> => {
  throw new Error("the store is unavailable")
}

test("a pass that fails is repeated after a second", async () => {
  const { loop, timers } = setup([fails])
  loop.start()
  await expect.poll(() => timers.map(({ ms }) => ms)).toEqual([1000])
  timers.shift()!.fn()
  await expect.poll(() => loop.passes).toBe(2)
  await loop.stop()
  expect(timers).toEqual([])
})

test("a pass that fails after one that planned nothing is repeated after a second, too", async () => {
  const first = Promise.withResolvers<null>()
  const { loop, timers } = setup([() => first.promise, fails])
  loop.start()
  loop.wake()
  first.resolve(null)
  await expect.poll(() => timers.map(({ ms }) => ms)).toEqual([1000])
  expect(loop.passes).toBe(2)
  await loop.stop()
})
