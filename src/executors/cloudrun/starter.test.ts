import { expect, test } from "vitest"
import { MemoryObjectStore } from "../../objects/testing/memory.ts"
import { assignment } from "../conformance/fixture.ts"
import { ManualClock } from "../conformance/manual-clock.ts"
import { GoogleApiError } from "./api-error.ts"
import { ExecutionPoller } from "./poller.ts"
import type { Execution } from "./shapes.ts"
import { Starter } from "./starter.ts"

const JOB = "projects/acme/locations/europe-west1/jobs/sh"

const setup = (respond: () => Execution | GoogleApiError) => {
  const clock = new ManualClock()
  const objects = new MemoryObjectStore()
  const calls: string[] = []
  const api = {
    run: async (): Promise<Execution> => {
      calls.push("run")
      const response = respond()
      if (response instanceof GoogleApiError) throw response
      return response
    },
    get: async (): Promise<Execution> => ({}),
    list: async (): Promise<{ executions: Execution[]; next: string }> => {
      calls.push("list")
      const response = respond()
      if (response instanceof GoogleApiError && response.status === 503) throw response
      return { executions: [], next: "" }
    },
  }
  const starter = new Starter({ api, poller: new ExecutionPoller(api, clock), objects, clock })
  const stop = new AbortController()
  const start = () =>
    starter.start({
      job: JOB,
      assignment: assignment("/", null),
      request: { name: JOB, overrides: { taskCount: 1, containerOverrides: [] } },
      signal: stop.signal,
      handedOver: () => false,
    })
  return { clock, objects, calls, start, stop }
}

test("when a start is rate limited, all starts pause together", async () => {
  let limited = true
  const { clock, calls, start } = setup(() => (limited ? new GoogleApiError(429, "quota") : { name: `${JOB}/executions/e` }))
  const all = Promise.all(Array.from({ length: 200 }, () => start()))
  await clock.pass(300_000)
  // Each one alone would have sent twenty requests.
  expect(calls.length).toBeLessThan(300)
  limited = false
  await clock.pass(60_000)
  expect((await all).every((started) => started?.id === "e")).toBe(true)
})

test("a start that is stopped before its request is not searched for", async () => {
  const { clock, calls, start, stop } = setup(() => new GoogleApiError(429, "quota"))
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

test.each(["cancel", "timeout"])("a %s ends a start within seconds while the service is failing", async (reason) => {
  const { clock, calls, start, stop } = setup(() => new GoogleApiError(503, "unavailable"))
  let ended = 0
  for (let i = 0; i < 20; i++) void start().then((started) => (ended += started === null ? 1 : 0))
  await clock.pass(120_000)
  expect([ended, calls.length > 0]).toEqual([0, true])
  stop.abort(reason)
  await clock.pass(11_000)
  expect(ended).toBe(20)
})

test("a start that waits for its turn ends at once when it is stopped", async () => {
  const { clock, calls, start, stop } = setup(() => new Promise(() => {}) as never)
  const all = Array.from({ length: 20 }, () => start())
  await clock.pass(0)
  expect(calls).toHaveLength(8)
  stop.abort("cancel")
  await clock.pass(0)
  expect(await Promise.all(all.slice(8))).toEqual(Array.from({ length: 12 }, () => null))
})
