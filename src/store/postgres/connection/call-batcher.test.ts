import { describe, expect, it } from "vitest"
import { CallBatcher } from "./call-batcher.ts"

describe("CallBatcher", () => {
  it("handles calls of one turn of the event loop together, up to its maximum weight", async () => {
    const batches: number[][] = []
    const batcher = new CallBatcher<number, string>(
      (items) => {
        batches.push(items)
        return Promise.resolve(items.map(String))
      },
      5,
      (item) => item,
    )
    const results = await Promise.all([[1, 1], [2], [3], [9], [1]].map((items) => batcher.add(items)))
    expect(results).toEqual([["1", "1"], ["2"], ["3"], ["9"], ["1"]])
    expect(batches).toEqual([[1, 1, 2, 3], [9], [1]])
  })

  it("tries each call by itself when a batch fails", async () => {
    const batcher = new CallBatcher<number, number>(
      (items) => (items.includes(2) ? Promise.reject(new Error("two")) : Promise.resolve(items)),
      10,
    )
    const results = await Promise.allSettled([[1], [2], [3]].map((items) => batcher.add(items)))
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"])
  })
})
