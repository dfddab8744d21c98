import { expect, test } from "vitest"
import { QueuePoller } from "./poller.ts"

const PLACE = { name: "ork-a", index: 0 }

/** Time passes when a test says so, and the queue answers when it says so. */
const setup = () => {
  const timers = new Set<() => void>()
  const asked: PromiseWithResolvers<string>[] = []
  const clock = {
    now: () => 0,
    after: (_ms: number, fn: () => void) => {
      timers.add(fn)
      return () => void timers.delete(fn)
    },
  }
  const call = (): Promise<string> => {
    const answer = Promise.withResolvers<string>()
    asked.push(answer)
    return answer.promise
  }
  const pass = (): void => {
    const due = [...timers]
    timers.clear()
    for (const fn of due) fn()
  }
  return { poller: new QueuePoller({ call }, clock), timers, asked, pass }
}

const queue = (...names: string[]): string =>
  JSON.stringify({ jobs: names.map((name, i) => ({ job_id: i + 1, name, job_state: ["PENDING"] })) })

test("a job is found by the first look after it was asked for", async () => {
  const { poller, asked, pass } = setup()
  const found = poller.find(PLACE)
  pass()
  asked[0]!.resolve(queue("ork-a"))
  expect(await found).toMatchObject({ name: "ork-a" })
})

test("a look that was on its way does not count: the next one finds it", async () => {
  const { poller, asked, pass, timers } = setup()
  const first = poller.find({ name: "ork-other", index: 0 })
  pass()
  const found = poller.find(PLACE)
  asked[0]!.resolve(queue("ork-other"))
  await first
  await expect.poll(() => timers.size).toBe(1)
  pass()
  asked[1]!.resolve(queue("ork-other", "ork-a"))
  expect(await found).toMatchObject({ name: "ork-a" })
})

test("whoever waits for a look is told when the poller stops, and so is who comes later", async () => {
  const { poller, asked, pass, timers } = setup()
  const before = poller.find(PLACE)
  poller.stop()
  await expect(before).rejects.toThrow("Ork is stopping")
  await expect(poller.find(PLACE)).rejects.toThrow("Ork is stopping")
  pass()
  expect([timers.size, asked.length]).toEqual([0, 0])
})

test("a look that is on its way when the poller stops is the last one", async () => {
  const { poller, asked, pass, timers } = setup()
  const watch = poller.watch(PLACE, () => {})
  pass()
  poller.stop()
  asked[0]!.resolve(queue("ork-a"))
  await expect.poll(() => watch.job).toMatchObject({ name: "ork-a" })
  expect(timers.size).toBe(0)
})
