import { expect, test } from "vitest"
import { MemoryObjectStore } from "../../objects/testing/memory.ts"
import { assignment } from "../conformance/fixture.ts"
import { ManualClock } from "../conformance/manual-clock.ts"
import { ApiError } from "./api-error.ts"
import { ExecutionPoller } from "./poller.ts"
import type { Execution } from "./shapes.ts"
import { Starter } from "./starter.ts"

const JOB = "projects/acme/locations/europe-west1/jobs/sh"

const setup = (respond: () => Execution | ApiError) => {
  const clock = new ManualClock()
  const objects = new MemoryObjectStore()
  const calls: string[] = []
  const api = {
    run: async (): Promise<Execution> => {
      calls.push("run")
      const response = respond()
      if (response instanceof ApiError) throw response
      return response
    },
    get: async (): Promise<Execution> => ({}),
    list: async (): Promise<{ executions: Execution[]; next: string }> => {
      calls.push("list")
      return { executions: [], next: "" }
    },
  }
  const starter = new Starter({ api, poller: new ExecutionPoller(api, clock), objects, clock })
  const stop = new AbortController()
  const start = () =>
    starter.start({
      job: JOB,
      assignment: assignment("/", null),
      request: {},
      signal: stop.signal,
      handedOver: () => false,
    })
  return { clock, objects, calls, start, stop }
}

test("when a start is rate limited, all starts pause together", async () => {
  let limited = true
  const { clock, calls, start } = setup(() => (limited ? new ApiError(429, "quota") : { name: `${JOB}/executions/e` }))
  const all = Promise.all(Array.from({ length: 200 }, () => start()))
  await clock.pass(300_000)
  // Each one alone would have sent twenty requests.
  expect(calls.length).toBeLessThan(300)
  limited = false
  await clock.pass(60_000)
  expect((await all).every((started) => started?.id === "e")).toBe(true)
})

test("a start that is stopped before its request is not searched for", async () => {
  const { clock, calls, start, stop } = setup(() => new ApiError(429, "quota"))
  const all = Promise.all(Array.from({ length: 20 }, () => start()))
  await clock.pass(500)
  const sent = calls.length
  stop.abort("cancel")
  await clock.pass(0)
  expect(await all).toEqual(Array.from({ length: 20 }, () => null))
  expect(calls).toHaveLength(sent)
})

test("a started execution is followed even if its name cannot be stored", async () => {
  const { clock, objects, start } = setup(() => ({ name: `${JOB}/executions/e` }))
  const put = objects.put.bind(objects)
  objects.put = async (key, data) => {
    if (String(data).includes('"execution":"e"')) throw new Error("the bucket is unavailable")
    await put(key, data)
  }
  const started = start()
  await clock.pass(0)
  expect(await started).toMatchObject({ id: "e" })
})
