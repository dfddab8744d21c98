// Definitions of one program that do not agree with each other.

import { expect, it } from "vitest"
import { type Definition, task } from "./definitions.ts"
import { Ork } from "./ork.ts"
import { testOrk } from "./test.ts"

const rated = (name: string, rate: [number, string], queue?: string): Definition =>
  task(name, { limit: { rate: rate as [number, "1s"] }, ...(queue !== undefined && { queue }) }, () => null)

const open = (...run: Definition[]): Promise<Ork> => Ork.open({ database: "sqlite::memory:", objects: "file:unused", run })

it("two tasks that give one queue different rates are rejected, by the test kit too", async () => {
  const run = [rated("mail", [10, "1s"], "smtp"), rated("news", [5, "1m"], "smtp")]
  const reason = "the tasks mail and news both limit the rate of the queue smtp, to 10 per 1000 ms and 5 per 60000 ms: give one"
  await expect(open(...run)).rejects.toThrow(reason)
  await expect(testOrk({ run })).rejects.toThrow(reason)
})

it("two tasks may share a queue with one rate on purpose, but not because their names are similar", async () => {
  await using ork = await testOrk({ run: [rated("mail", [10, "1s"], "smtp"), rated("news", [10, "1s"], "smtp")] })
  expect(ork).toBeDefined()
  await expect(open(rated("send-email", [10, "1s"]), rated("send_email", [10, "1s"]))).rejects.toThrow(
    "the tasks send-email and send_email both limit the rate of the queue send_email: give one of them another queue",
  )
})

it("the rate of a task named default does not limit all tasks", () => {
  expect(rated("default", [1, "1s"])).toMatchObject({ queue: "default_" })
})
