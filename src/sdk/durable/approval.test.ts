import { describe, expect, it } from "vitest"
import { workflow } from "../definitions.ts"
import { ConflictError, NotFoundError } from "../errors.ts"
import { testOrk } from "../test.ts"

const refund = workflow("refund", {}, async (_, step) => {
  const first = await step.approval("refund the order", { message: "Refund 5 EUR?", timeout: "3d" })
  return { first }
})

describe("step.approval", () => {
  it("waits without a slot, also over a crash, until somebody approves or rejects", async () => {
    await using ork = await testOrk({ run: [refund] })
    const runs = [await ork.enqueue(refund, {}), await ork.enqueue(refund, {})] as const
    await ork.advance("1d")
    await ork.crash()
    await ork.approve(runs[0], "refund the order", { comment: "go" })
    await ork.reject(runs[1], "refund the order")
    await ork.advance("1s")
    const by = "engine 2"
    const at = "2026-01-02T00:00:00.000Z"
    expect(await runs[0].result()).toEqual({ first: { approved: true, comment: "go", by, at } })
    expect(await runs[1].result()).toEqual({ first: { approved: false, comment: null, by, at } })
  })

  it("takes the default when nobody has answered in time", async () => {
    const lenient = workflow(
      "lenient",
      {},
      async (_, step) => await step.approval("go on", { timeout: "1h", default: "approve" }),
    )
    await using ork = await testOrk({ run: [refund, lenient] })
    const runs = [await ork.enqueue(refund, {}), await ork.enqueue(lenient, {})] as const
    await ork.advance("3d")
    expect(await runs[0].result()).toMatchObject({
      first: { approved: false, by: null, comment: "nobody answered within 3d" },
    })
    expect(await runs[1].result()).toMatchObject({ approved: true, by: null, at: "2026-01-01T01:00:00.000Z" })
  })

  it("accepts one answer, to a step that waits", async () => {
    await using ork = await testOrk({ run: [refund] })
    const run = await ork.enqueue(refund, {})
    await ork.advance("1s")
    await expect(ork.approve(run, "refund")).rejects.toThrow(NotFoundError)
    await expect(ork.approve(run, "refund")).rejects.toThrow(
      "has no step refund that waits for approval; these do: refund the order",
    )
    await ork.approve(run, "refund the order")
    await expect(ork.reject(run, "refund the order")).rejects.toThrow(ConflictError)
    await ork.advance("1s")
    expect(await run.result()).toMatchObject({ first: { approved: true } })
    await expect(ork.reject(run, "refund the order")).rejects.toThrow("does not wait for approval: it was answered")
  })

  it("asks again when the function is retried from there", async () => {
    await using ork = await testOrk({ run: [refund] })
    const run = await ork.enqueue(refund, {})
    await ork.advance("1s")
    await ork.reject(run, "refund the order")
    await ork.advance("1s")
    await run.retry({ from: "refund the order" })
    await ork.advance("1s")
    expect((await run.refresh()).status).toBe("running")
    await ork.approve(run, "refund the order")
    await ork.advance("1s")
    expect(await run.result()).toMatchObject({ first: { approved: true } })
  })

  it("answers each of several steps of one name", async () => {
    const twice = workflow("twice", {}, async (_, step) => {
      const answers = await Promise.all([step.approval("go"), step.approval("go")])
      return answers.map(({ approved }) => approved)
    })
    await using ork = await testOrk({ run: [twice] })
    const run = await ork.enqueue(twice, {})
    await ork.advance("1s")
    await ork.reject(run, "go", { path: "1" })
    await ork.advance("1s")
    await ork.approve(run, "go")
    await ork.advance("1s")
    expect(await run.result()).toEqual([true, false])
  })
})
