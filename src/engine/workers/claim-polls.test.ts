import { expect, test } from "vitest"
import { ClaimPolls, NOTHING, type Served } from "./claim-polls.ts"
import type { RegisteredWorker } from "./worker-registry.ts"
import { ManualClock, settle } from "../../executors/conformance/manual-clock.ts"

const worker = { id: "w1", lanes: ["q:mail"] } as unknown as RegisteredWorker

const setup = (serve: (free: number) => Served | Error) => {
  const clock = new ManualClock()
  const warnings: object[] = []
  const log = { info: () => {}, warn: (fields: object) => void warnings.push(fields), error: () => {} }
  const polls = new ClaimPolls({ clock, log }, async (poll) => {
    const served = serve(poll.free)
    if (served instanceof Error) throw served
    poll.respond({ ...NOTHING, closed: ["served"] })
    return served
  })
  const open = (free: number) =>
    polls.add({ worker, free, stopping: new Set() }, 20_000, new AbortController().signal).then(({ closed }) => closed)
  return { clock, polls, warnings, open }
}

const DONE: Served = { empty: false, more: false, nextDueMs: null }

test("a poll is served a second after a claim that failed, not at the end of its waiting time", async () => {
  const results: (Served | Error)[] = [new Error("the store is unavailable"), DONE]
  const { clock, open, warnings } = setup(() => results.shift()!)
  const response = open(4)
  await clock.pass(1000)
  expect(await response).toEqual(["served"])
  expect(warnings).toEqual([{ error: "Error: the store is unavailable" }])
})

test("a wake-up for all polls that fails is repeated for all polls", async () => {
  const results: (Served | Error)[] = [new Error("the store is unavailable"), DONE]
  const { clock, open, polls } = setup(() => results.shift()!)
  const response = open(0)
  await settle()
  polls.wake(true)
  await clock.pass(1000)
  expect(await response).toEqual(["served"])
})

test("a poll without work ends with nothing after its waiting time", async () => {
  const { clock, open } = setup(() => DONE)
  const response = open(0)
  await clock.pass(20_000)
  expect(await response).toEqual([])
})
