import { describe, expect, it } from "vitest"
import { ShardedInbox } from "./sharded-inbox.ts"
import type { Change } from "../../core/model/change.ts"
import type { AttemptId } from "../../core/model/ids.ts"

let made = 0
const of = (shardKey: number): Change => ({
  row: ++made,
  attemptId: `attempt-${made}` as AttemptId,
  shardKey,
  kind: "skip",
  skipReason: "waived",
  reason: "",
})

const filled = (turns: { maxConcurrent: number; minBatch: number }, runs: readonly number[]): ShardedInbox => {
  const halves = new ShardedInbox(turns, () => {})
  for (const run of runs) halves.add(of(run))
  return halves
}

const TWO = { maxConcurrent: 2, minBatch: 2 }

describe("what waits to be committed", () => {
  it("goes as one turn when there is little of it", () => {
    const halves = filled(TWO, [1, 2, 1])
    expect(halves.nextBatch()).toMatchObject({ changes: { length: 3 }, rest: 0, alone: true })
    expect(halves.canAdvance).toBe(false)
  })

  it("goes as two turns that share no run when there is enough for both", () => {
    const halves = filled(TWO, [1, 2, 3, 4, 5, 6])
    const [first, second] = [halves.nextBatch(), halves.nextBatch()]
    expect(first.remaining).toBe(3)
    expect(first.changes.map(({ shardKey }) => shardKey! % 2)).toEqual([0, 0, 0])
    expect(second.changes.map(({ shardKey }) => shardKey! % 2)).toEqual([1, 1, 1])
    expect([first.exclusive, second.exclusive]).toEqual([false, false])
  })

  it("waits while a turn with changes of the same runs is under way", () => {
    const halves = filled(TWO, [2, 4, 6, 8])
    const first = halves.nextBatch()
    for (const run of [2, 4, 6]) halves.add(of(run))
    expect(halves.canAdvance).toBe(false)
    halves.complete(first, { back: false })
    expect(halves.nextBatch().changes).toHaveLength(3)
  })

  it("comes back before what was said later when its turn failed", () => {
    const halves = filled({ maxConcurrent: 1, minBatch: 0 }, [1, 2])
    const first = halves.nextBatch()
    halves.add(of(3))
    halves.complete(first, { back: true })
    expect(halves.nextBatch().changes.map(({ shardKey }) => shardKey)).toEqual([1, 2, 3])
  })

  it("lets a turn begin without any changes while nothing is under way", () => {
    const halves = filled(TWO, [])
    expect(halves.canAdvance).toBe(true)
    expect(halves.nextBatch()).toMatchObject({ changes: [], rest: 0 })
    expect(halves.idle).toBe(false)
  })
})
