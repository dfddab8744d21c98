import { expect, test } from "vitest"
import { VirtualClock } from "../../../test/sim/clock.ts"
import { SharedTimers } from "./shared-timers.ts"

const setup = () => {
  const clock = new VirtualClock()
  const fired: [item: string, afterMs: number][] = []
  const begin = clock.monotonic()
  const timers = new SharedTimers<string>(clock, (item) => void fired.push([item, clock.monotonic() - begin]))
  const runAll = (): void => {
    while (clock.step()) continue
  }
  return { timers, fired, runAll }
}

test("items that are due within the slack share a timer, and fire at most that much later", () => {
  const { timers, fired, runAll } = setup()
  for (let i = 0; i < 1000; i++) timers.add(`${i}`, 10_000 + i, 100)
  expect(timers.size).toBeLessThanOrEqual(11)
  runAll()
  expect(fired).toHaveLength(1000)
  for (const [item, afterMs] of fired) {
    const lateMs = afterMs - 10_000 - Number(item)
    expect(lateMs >= 0 && lateMs <= 100).toBe(true)
  }
})

test("an item that fires may be added again, and nothing fires after the timers were cancelled", () => {
  const { timers, fired, runAll } = setup()
  timers.add("a", 0, 5)
  runAll()
  timers.add("a", 0, 5)
  timers.cancelAll()
  runAll()
  expect(fired).toHaveLength(1)
  expect(timers.size).toBe(0)
})
