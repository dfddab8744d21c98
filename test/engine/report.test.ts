import { describe, expect, it } from "vitest"
import { fail, setup } from "./world.ts"
import { CommitAcks } from "../../src/engine/loop/commit-acks.ts"
import type { Change } from "../../src/core/model/change.ts"
import type { AttemptId } from "../../src/core/model/ids.ts"

const ENDLESS = "name: endless\ntasks: { a: { command: work } }"

const ended = (row: number, attemptId: string): Change => ({
  row,
  attemptId: attemptId as AttemptId,
  kind: "finish",
  status: "success",
  result: { state: "success", startedAt: 1, finishedAt: 2, output: { inline: "reported" } },
})

describe("report", () => {
  it("answers when the change is committed", async () => {
    const { engine, trigger, pass, task, until } = await setup({ a: (_, { untilStopped }) => untilStopped() })
    const runId = await trigger(ENDLESS)
    await pass(100)
    const { row, attemptId } = await task(runId, "a")
    expect(await until(engine.report([ended(row, attemptId!)]))).toEqual([])
    expect(await task(runId, "a")).toMatchObject({ status: "success", output: { inline: "reported" } })
  })

  it("names the fences that no longer held", async () => {
    const { engine, trigger, ended: runEnded, task, until } = await setup({ a: () => fail() })
    const runId = await trigger(ENDLESS)
    await runEnded(runId)
    const { row } = await task(runId, "a")
    const late = ended(row, "an-old-attempt")
    expect(await until(engine.report([late]))).toEqual([{ row, attemptId: late.attemptId }])
    expect((await task(runId, "a")).status).toBe("failed")
  })

  it("is refused by an engine that has stopped", async () => {
    const { engine, until } = await setup()
    await until(engine.stop())
    await expect(engine.report([ended(1, "x")])).rejects.toThrow("the engine is stopping")
  })
})

describe("Receipts", () => {
  it("follow a change that was folded into another", async () => {
    const receipts = new CommitAcks()
    const start: Change = { row: 1, attemptId: "a" as AttemptId, kind: "started", at: 1 }
    const end = ended(1, "a")
    const receipt = receipts.track([start])
    receipts.coalesced(start, end)
    receipts.committed([end], [])
    expect(await receipt).toEqual([])
  })

  it("are given up when nothing more is committed", async () => {
    const receipts = new CommitAcks()
    const receipt = receipts.track([ended(1, "a")])
    receipts.close()
    await expect(receipt).rejects.toThrow("stopping")
  })
})
