import { describe, expect, it } from "vitest"
import { CallBatcher } from "./call-batcher.ts"

describe("a group", () => {
  it("does what is asked at once together, up to its bound", async () => {
    const done: number[][] = []
    const group = new CallBatcher<number, string>(
      (items) => {
        done.push(items)
        return Promise.resolve(items.map(String))
      },
      5,
      (item) => item,
    )
    const answers = await Promise.all([group.add([1, 1]), group.add([2]), group.add([3]), group.add([9]), group.add([1])])
    expect(answers).toEqual([["1", "1"], ["2"], ["3"], ["9"], ["1"]])
    expect(done).toEqual([[1, 1, 2, 3], [9], [1]])
  })

  it("tries each member alone when they fail together", async () => {
    const group = new CallBatcher<number, number>(
      (items) => (items.includes(2) ? Promise.reject(new Error("two")) : Promise.resolve(items)),
      10,
    )
    const answers = await Promise.allSettled([group.add([1]), group.add([2]), group.add([3])])
    expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"])
  })
})
