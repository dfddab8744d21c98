// What a program sees of events: the same on every database.

import { describe, expect, it } from "vitest"
import { task, workflow } from "../definitions.ts"
import { ConflictError } from "../errors.ts"
import { EventReader, type OrkEvent } from "../events.ts"
import type { testOrk as TestKit } from "../test.ts"

const copy = task("copy", {}, async (_, { progress }) => {
  progress(0.5, { file: "a.csv" })
  await new Promise((resolve) => setImmediate(resolve))
  return "copied"
})
const other = task("other", {}, () => null)
const flow = workflow("flow", {}, async (_, step) => await step.sleep("a while", "1h"))

/** Iterates until an event is the last one. */
const until = async (events: AsyncIterable<OrkEvent>, isLast: (event: OrkEvent) => boolean): Promise<OrkEvent[]> => {
  const seen: OrkEvent[] = []
  for await (const event of events) {
    seen.push(event)
    if (isLast(event)) return seen
  }
  return seen
}

const isOver = ({ type, status }: OrkEvent): boolean => type !== "task" && ["completed", "success"].includes(status)

/** The tests, with a test kit on either database. */
export const eventTests = (testOrk: typeof TestKit): void => {
  describe("events", () => {
    it("are those of a task's jobs, in their order, with progress", async () => {
      await using ork = await testOrk({ run: [copy, other] })
      const events = ork.events({ def: copy })
      await ork.enqueue(other, null)
      const job = await ork.enqueue(copy, null)
      await ork.advance("1s")
      const seen = await until(events, isOver)
      expect(new Set(seen.map(({ work, name, type }) => `${type} ${name} ${work}`))).toEqual(new Set([`job copy ${job.id}`]))
      expect(seen.map(({ status }) => status)).toEqual(["ready", "running", "running", "completed"])
      expect(seen[2]).toMatchObject({ progress: { fraction: 0.5, details: { file: "a.csv" } } })
      expect(seen[0]!.at).toEqual(new Date("2026-01-01T00:00:00Z"))
      expect((await job.refresh()).progress).toEqual({ fraction: 0.5, details: { file: "a.csv" } })
    })

    it("of a run go on after a crash, and after an id", async () => {
      await using ork = await testOrk({ run: [flow] })
      const events = ork.events({ def: "flow" })
      const run = await ork.enqueue(flow, {})
      await ork.advance("1m")
      const first = (await events.next()).value as OrkEvent
      expect(first).toMatchObject({ type: "run", work: run.id, name: "flow" })
      await ork.crash()
      await ork.advance("2h")
      const rest = await until(events, isOver)
      expect(rest.at(-1)).toMatchObject({ type: "run", status: "success", work: run.id })
      expect(await until(ork.events({ work: run, after: first.id }), isOver)).toEqual(rest)
      await expect(ork.events({ after: "0.0" }).next()).resolves.toMatchObject({ value: first })
    })

    it("end when the signal aborts, and with the program", async () => {
      const ork = await testOrk({ run: [copy] })
      const stop = new AbortController()
      const ends = [ork.events({ signal: stop.signal }).next(), ork.events().next()]
      stop.abort()
      expect(await ends[0]).toEqual({ done: true, value: undefined })
      await ork.stop()
      expect(await ends[1]).toEqual({ done: true, value: undefined })
    })

    it("that are gone are reported", async () => {
      const reader = new EventReader({
        readEvents: async () => ({ events: [], cursor: "9.0", gap: true }),
        getRun: async () => null,
      })
      await expect(reader.read({ after: "1.0" }).next()).rejects.toThrow(ConflictError)
    })
  })
}
