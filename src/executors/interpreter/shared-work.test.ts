import { expect, test } from "vitest"
import { SharedWork } from "./shared-work.ts"

const setup = () => {
  const shared = new SharedWork<string>()
  const started: { signal: AbortSignal; end: (value: string) => void }[] = []
  const work = (signal: AbortSignal): Promise<string> =>
    new Promise((resolve, reject) => {
      started.push({ signal, end: resolve })
      signal.addEventListener("abort", () => reject(new Error("stopped")))
    })
  const wait = (key = "a") => {
    const leaving = new AbortController()
    return { result: shared.run(key, leaving.signal, work), leave: () => leaving.abort(new Error("left")) }
  }
  return { started, wait }
}

test("work with the same key runs once at a time", async () => {
  const { started, wait } = setup()
  const [one, two, other] = [wait(), wait(), wait("b")]
  expect(started.length).toBe(2)
  started[0]!.end("done")
  started[1]!.end("other")
  expect(await Promise.all([one.result, two.result, other.result])).toEqual(["done", "done", "other"])
  wait()
  expect(started.length).toBe(3)
})

test("one who leaves does not stop the work, the last one does", async () => {
  const { started, wait } = setup()
  const [one, two] = [wait(), wait()]
  one.leave()
  await expect(one.result).rejects.toThrow("left")
  expect(started[0]!.signal.aborted).toBe(false)
  two.leave()
  await expect(two.result).rejects.toThrow("stopped")
  expect(started[0]!.signal.aborted).toBe(true)
})

test("work that is being stopped is not shared", async () => {
  const { started, wait } = setup()
  const one = wait()
  one.leave()
  const two = wait()
  started[1]!.end("done")
  await expect(one.result).rejects.toThrow("stopped")
  expect(await two.result).toBe("done")
})
