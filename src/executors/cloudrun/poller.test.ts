import { expect, test } from "vitest"
import { ManualClock } from "../conformance/manual-clock.ts"
import { ExecutionPoller } from "./poller.ts"
import type { Execution } from "./shapes.ts"

const JOB = "projects/acme/locations/europe-west1/jobs/sh"

const setup = () => {
  const clock = new ManualClock()
  /** Newest first. */
  const executions: Execution[] = []
  const calls: string[] = []
  const api = {
    get: async (name: string): Promise<Execution> => {
      calls.push("get")
      return executions.find((one) => one.name === name) ?? {}
    },
    list: async (): Promise<{ executions: Execution[]; next: string }> => {
      calls.push("list")
      return { executions: [...executions], next: "" }
    },
  }
  const poller = new ExecutionPoller(api, clock)
  const watch = (id: string, onPoll: () => void) => {
    executions.unshift({ name: `${JOB}/executions/${id}`, createTime: new Date(clock.now()).toISOString() })
    return poller.watch({ job: JOB, attemptId: id, id, since: clock.now() }, onPoll)
  }
  return { clock, executions, calls, watch }
}

test("an old execution is reported even if newer ones are polled all the time", async () => {
  const { clock, executions, watch } = setup()
  let ended = false
  const old = watch("old", () => (ended = Boolean(old.execution?.completionTime)))
  await clock.pass(300_000)
  Object.assign(executions[0] ?? {}, { completionTime: new Date(clock.now()).toISOString() })
  const young: { close(): void }[] = []
  for (let i = 0; i < 30 && !ended; i++) {
    young.push(watch(`young-${i}`, () => {}))
    if (young.length > 5) young.shift()?.close()
    await clock.pass(1000)
  }
  expect(ended).toBe(true)
})

test("a single execution is polled every 2 s at first, and every 15 s later", async () => {
  const { clock, calls, watch } = setup()
  watch("one", () => {})
  await clock.pass(10_500)
  expect(calls).toEqual(Array.from({ length: 5 }, () => "get"))
  await clock.pass(600_000)
  calls.length = 0
  await clock.pass(60_000)
  expect(calls.length).toBe(4)
})
