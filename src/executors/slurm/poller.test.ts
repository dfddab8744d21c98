import { expect, test } from "vitest"
import { QueuePoller } from "./poller.ts"

const LOCATION = { name: "ork-a", index: 0 }

/** `pass` fires all timers; tests resolve `calls` with the output of the command. */
const setup = () => {
  const timers = new Set<() => void>()
  const calls: PromiseWithResolvers<string>[] = []
  const clock = {
    now: () => 0,
    monotonic: () => 0,
    after: (_ms: number, fn: () => void) => {
      timers.add(fn)
      return () => void timers.delete(fn)
    },
  }
  const call = (): Promise<string> => {
    const output = Promise.withResolvers<string>()
    calls.push(output)
    return output.promise
  }
  const pass = (): void => {
    const due = [...timers]
    timers.clear()
    for (const fn of due) fn()
  }
  return { poller: new QueuePoller({ call }, clock), timers, calls, pass }
}

const queue = (...names: string[]): string =>
  JSON.stringify({ jobs: names.map((name, i) => ({ job_id: i + 1, name, job_state: ["PENDING"] })) })

test("a job is found by the first poll after the request", async () => {
  const { poller, calls, pass } = setup()
  const found = poller.find(LOCATION)
  pass()
  calls[0]!.resolve(queue("ork-a"))
  expect(await found).toMatchObject({ name: "ork-a" })
})

test("a poll that was already in flight does not count: the next one finds the job", async () => {
  const { poller, calls, pass, timers } = setup()
  const first = poller.find({ name: "ork-other", index: 0 })
  pass()
  const found = poller.find(LOCATION)
  calls[0]!.resolve(queue("ork-other"))
  await first
  await expect.poll(() => timers.size).toBe(1)
  pass()
  calls[1]!.resolve(queue("ork-other", "ork-a"))
  expect(await found).toMatchObject({ name: "ork-a" })
})

test("pending and later searches are rejected when the poller stops", async () => {
  const { poller, calls, pass, timers } = setup()
  const before = poller.find(LOCATION)
  poller.stop()
  await expect(before).rejects.toThrow("Ork is stopping")
  await expect(poller.find(LOCATION)).rejects.toThrow("Ork is stopping")
  pass()
  expect([timers.size, calls.length]).toEqual([0, 0])
})

test("a poll that is in flight when the poller stops is the last one", async () => {
  const { poller, calls, pass, timers } = setup()
  const watch = poller.watch(LOCATION, () => {})
  pass()
  poller.stop()
  calls[0]!.resolve(queue("ork-a"))
  await expect.poll(() => watch.job).toMatchObject({ name: "ork-a" })
  expect(timers.size).toBe(0)
})
