import { describe, expect, it } from "vitest"
import { ShardedInbox } from "./sharded-inbox.ts"
import type { Change } from "../../core/model/change.ts"
import type { AttemptId } from "../../core/model/ids.ts"

let rows = 0
const changeOf = (shardKey: number): Change => ({
  row: ++rows,
  attemptId: `attempt-${rows}` as AttemptId,
  shardKey,
  kind: "skip",
  skipReason: "waived",
  reason: "",
})

const filled = (concurrency: { maxConcurrent: number; minBatch: number }, runs: readonly number[]): ShardedInbox => {
  const inbox = new ShardedInbox(concurrency, () => {})
  for (const run of runs) inbox.add(changeOf(run))
  return inbox
}

const TWO = { maxConcurrent: 2, minBatch: 2 }

describe("ShardedInbox", () => {
  it("puts a few changes of all shards into one batch", () => {
    const inbox = filled(TWO, [1, 2, 1])
    expect(inbox.nextBatch()).toMatchObject({ changes: { length: 3 }, nextBatchSize: null, exclusive: true })
    expect(inbox.canAdvance).toBe(false)
  })

  it("makes two batches that share no run when there is enough for both", () => {
    const inbox = filled(TWO, [1, 2, 3, 4, 5, 6])
    const [first, second] = [inbox.nextBatch(), inbox.nextBatch()]
    expect(first.nextBatchSize).toBe(3)
    expect(first.changes.map(({ shardKey }) => shardKey! % 2)).toEqual([0, 0, 0])
    expect(second.changes.map(({ shardKey }) => shardKey! % 2)).toEqual([1, 1, 1])
    expect([first.exclusive, second.exclusive]).toEqual([false, false])
  })

  it("makes no batch of a shard that has one in flight", () => {
    const inbox = filled(TWO, [2, 4, 6, 8])
    const first = inbox.nextBatch()
    for (const run of [2, 4, 6]) inbox.add(changeOf(run))
    expect(inbox.canAdvance).toBe(false)
    inbox.complete(first)
    expect(inbox.nextBatch().changes).toHaveLength(3)
  })

  it("requeues a batch before later changes", () => {
    const inbox = filled({ maxConcurrent: 1, minBatch: 0 }, [1, 2])
    const first = inbox.nextBatch()
    inbox.add(changeOf(3))
    inbox.requeue(first)
    expect(inbox.nextBatch().changes.map(({ shardKey }) => shardKey)).toEqual([1, 2, 3])
  })

  it("requeues a batch of several shards before later changes of each", () => {
    const inbox = filled(TWO, [1, 2])
    const first = inbox.nextBatch()
    inbox.add(changeOf(3))
    inbox.requeue(first)
    expect(inbox.nextBatch().changes.map(({ shardKey }) => shardKey)).toEqual([2, 1, 3])
  })

  it("makes an empty batch while nothing is in flight", () => {
    const inbox = filled(TWO, [])
    expect(inbox.canAdvance).toBe(true)
    expect(inbox.nextBatch()).toMatchObject({ changes: [], nextBatchSize: null })
    expect(inbox.idle).toBe(false)
  })
})
