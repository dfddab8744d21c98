import { describe, expect, it } from "vitest"
import { fail, setup } from "./setup.ts"
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
  it("resolves when the change is committed", async () => {
    const { engine, trigger, pass, task, until } = await setup({ a: (_, { untilStopped }) => untilStopped() })
    const runId = await trigger(ENDLESS)
    await pass(100)
    const { row, attemptId } = await task(runId, "a")
    expect(await until(engine.report([ended(row, attemptId!)]))).toEqual([])
    expect(await task(runId, "a")).toMatchObject({ status: "success", output: { inline: "reported" } })
  })

  it("returns the fences that no longer hold", async () => {
    const { engine, trigger, ended: runEnded, task, until } = await setup({ a: () => fail() })
    const runId = await trigger(ENDLESS)
    await runEnded(runId)
    const { row } = await task(runId, "a")
    const late = ended(row, "an-old-attempt")
    expect(await until(engine.report([late]))).toEqual([{ row, attemptId: late.attemptId }])
    expect((await task(runId, "a")).status).toBe("failed")
  })

  it("is rejected by an engine that has stopped", async () => {
    const { engine, until } = await setup()
    await until(engine.stop())
    await expect(engine.report([ended(1, "x")])).rejects.toThrow("the engine is stopping")
  })
})

describe("CommitAcks", () => {
  it("follow a change that was coalesced into another", async () => {
    const acks = new CommitAcks()
    const start: Change = { row: 1, attemptId: "a" as AttemptId, kind: "started", at: 1 }
    const end = ended(1, "a")
    const ack = acks.track([start])
    acks.coalesced(start, end)
    acks.committed([end], [])
    expect(await ack).toEqual([])
  })

  it("reject when the engine stops", async () => {
    const acks = new CommitAcks()
    const ack = acks.track([ended(1, "a")])
    acks.close()
    await expect(ack).rejects.toThrow("stopping")
  })
})
