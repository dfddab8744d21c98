import { describe, expect, it } from "vitest"
import { EXPAND_CHUNK, Inbox, MAX_BATCH } from "./inbox.ts"
import type { Change } from "../../core/model/change.ts"
import type { AttemptId } from "../../core/model/ids.ts"

const fence = (row: number) => ({ row, attemptId: `attempt-${row}` as AttemptId })
const started = (row: number): Change => ({ ...fence(row), kind: "started", at: 1 })
const ended = (row: number): Change => ({
  ...fence(row),
  kind: "finish",
  status: "success",
  result: { state: "success", startedAt: 1, finishedAt: 2 },
})
const wait = (resumes: number): Change => ({
  ...fence(1),
  kind: "wait",
  waitingOn: { kind: "sleep", ms: 1 },
  delayMs: 1,
  resumes,
})
const expand = (offset: number): Change => {
  const items = Array.from({ length: EXPAND_CHUNK }, () => null)
  return { ...fence(0), kind: "expand", total: 2000, offset, items, lane: "q:default", priority: 5, limits: [] }
}

const filled = (...changes: Change[]): Inbox => {
  const inbox = new Inbox()
  for (const change of changes) inbox.add(change)
  return inbox
}

describe("Inbox", () => {
  it("replaces a start that is not committed by the end of its attempt", () => {
    expect(filled(started(1), started(2), ended(1)).nextBatch()).toEqual([ended(1), started(2)])
  })

  it("is not urgent with starts alone", () => {
    const inbox = filled(started(1))
    expect(inbox.urgent).toBe(false)
    inbox.add(ended(2))
    expect(inbox.urgent).toBe(true)
  })

  it("makes batches of bounded size, oldest first", () => {
    const inbox = filled(...Array.from({ length: MAX_BATCH + 1 }, (_, i) => ended(i)))
    expect(inbox.nextBatch()).toHaveLength(MAX_BATCH)
    expect(inbox.nextBatch()).toEqual([ended(MAX_BATCH)])
    expect(inbox.size).toBe(0)
  })

  it("commits results before further chunks of an expansion", () => {
    const inbox = filled(expand(0), expand(500), expand(1000), ended(7))
    expect(inbox.nextBatch().map((change) => change.kind)).toEqual(["finish", "expand"])
    expect(inbox.nextBatch()).toEqual([expand(500)])
  })

  it("requeues a batch in order, before later changes", () => {
    const inbox = filled(started(1), expand(0), expand(500))
    const batch = inbox.nextBatch()
    inbox.add(ended(1))
    inbox.add(ended(2))
    inbox.requeue(batch)
    expect(inbox.nextBatch()).toEqual([ended(1), ended(2), expand(0)])
    expect(inbox.nextBatch()).toEqual([expand(500)])
  })

  it("keeps the latest progress of an attempt, between its start and its end", () => {
    const progress = (fraction: number): Change => ({ ...fence(1), kind: "progress", fraction, details: null })
    const inbox = filled(started(1), progress(0.1), progress(0.2))
    expect(inbox.urgent).toBe(false)
    inbox.add(ended(1))
    expect(inbox.urgent).toBe(true)
    expect(inbox.nextBatch()).toEqual([started(1), progress(0.2), ended(1)])
  })

  it("replaces the wait of a resumed row by a later change of its attempt", () => {
    expect(filled(wait(1), ended(2), wait(2)).nextBatch()).toEqual([wait(2), ended(2)])
    expect(filled(wait(1), wait(2), ended(1)).nextBatch()).toEqual([ended(1)])
    const inbox = filled(wait(1))
    const batch = inbox.nextBatch()
    inbox.add(ended(1))
    inbox.requeue(batch)
    expect(inbox.nextBatch()).toEqual([ended(1)])
  })

  it("drops a wait that was decided before the one it already has", () => {
    const replaced: [Change, Change][] = []
    const inbox = new Inbox((change, into) => replaced.push([change, into]))
    inbox.add(wait(2))
    inbox.add(wait(1))
    expect(inbox.nextBatch()).toEqual([wait(2)])
    expect(replaced).toEqual([[wait(1), wait(2)]])
  })

  it("drops the waits that precede a claim which is committed", () => {
    const inbox = filled(wait(1), ended(2))
    expect(inbox.takeCommittedWaits("attempt-1", 1)).toEqual([])
    expect(inbox.takeCommittedWaits("attempt-1", 2)).toEqual([wait(1)])
    expect(inbox.nextBatch()).toEqual([ended(2)])
  })

  it("keeps a start before a wait, which does not record the start", () => {
    const first: Change = { ...fence(1), kind: "wait", waitingOn: { kind: "sleep", ms: 1 }, delayMs: 1 }
    expect(filled(started(1), first, ended(1)).nextBatch()).toEqual([started(1), first, ended(1)])
  })
})
