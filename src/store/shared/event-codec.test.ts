import fc from "fast-check"
import { describe, expect, it } from "vitest"
import type { RunId } from "../../core/model/ids.ts"
import { JOB_STATUSES } from "../../core/rules/jobs/jobs.ts"
import { iso } from "../../core/model/ports.ts"
import { RUN_STATUSES, TASK_STATUSES } from "../../core/model/status.ts"
import { decodeEvents, encodeEvents, type EventBatch, eventId, eventsAfter, parseEventId } from "./event-codec.ts"
import type { StoreEvent } from "../contract/store.ts"

const instant = fc.integer({ min: 0, max: 4_000_000_000_000 }).map(iso)
const runId = fc.constantFrom("r1", "r2", "r3") as fc.Arbitrary<RunId>
const rest = { error: fc.string({ minLength: 1 }), availableAt: instant }
const run = fc.record(
  { type: fc.constant("run" as const), runId, status: fc.constantFrom(...RUN_STATUSES), at: instant, error: rest.error },
  { requiredKeys: ["type", "runId", "status", "at"] },
)
const task = fc.record(
  {
    type: fc.constant("task" as const),
    runId,
    task: fc.constantFrom("a", "b"),
    path: fc.constantFrom("", "3", "1.2"),
    attempt: fc.nat(),
    status: fc.constantFrom(...TASK_STATUSES),
    at: instant,
    total: fc.nat(),
    ...rest,
  },
  { requiredKeys: ["type", "runId", "task", "path", "attempt", "status", "at"] },
)
const job = fc.record(
  {
    type: fc.constant("job" as const),
    runId: fc.constant("" as RunId),
    jobId: fc.uuid(),
    status: fc.constantFrom(...JOB_STATUSES),
    at: instant,
    ...rest,
  },
  { requiredKeys: ["type", "runId", "jobId", "status", "at"] },
)

describe("encoded events", () => {
  it("are decoded unchanged", () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(run, task, job), { minLength: 1, maxLength: 20 }), (generated) => {
        const events = generated.map((event) => ({ ...event })) as StoreEvent[]
        const { runs, text } = encodeEvents(events)
        expect(decodeEvents(runs, text, "")).toEqual(events)
        expect(new Set(runs).size).toBe(runs.length)
      }),
    )
  })

  it("of dispatched tasks have the instant of their batch", () => {
    const at = iso(0)
    const runId = "r1" as RunId
    const { runs, text, dispatches } = encodeEvents(
      [{ type: "run", runId, status: "running", at }],
      [
        { runId, task: "a", path: "" },
        { runId, task: "b", path: "" },
      ],
    )
    expect(decodeEvents(runs, text, iso(7))).toHaveLength(1)
    const more = `${text.slice(0, -2)},${dispatches[1]!},3]]}`
    expect(decodeEvents(runs, more, iso(7))[1]).toEqual({
      type: "task",
      runId,
      task: "b",
      path: "",
      attempt: 3,
      status: "dispatched",
      at: iso(7),
    })
  })

  it("list every run once, and no run for jobs", () => {
    const at = iso(0)
    const { runs } = encodeEvents([
      { type: "run", runId: "r1" as RunId, status: "running", at },
      { type: "run", runId: "r1" as RunId, status: "success", at },
      { type: "job", runId: "" as RunId, jobId: "j", status: "READY", at },
    ])
    expect(runs).toEqual(["r1"])
  })
})

describe("ids of events", () => {
  it("consist of batch and index", () => {
    expect(parseEventId(eventId(12, 3))).toEqual({ batch: 12, index: 3 })
    for (const text of ["", "12", "12.", ".3", "-1.0", "1.2.3", "x.1", "1.1 "]) expect(parseEventId(text)).toBeNull()
  })
})

describe("events after an event", () => {
  const row = (batch: number, ...runIds: string[]): EventBatch => {
    const events = runIds.map((runId) => ({ type: "run", runId: runId as RunId, status: "running", at: iso(0) }) as const)
    const { runs, text } = encodeEvents(events)
    return { batch, size: events.length, at: iso(0), runs: JSON.stringify(runs), events: text }
  }
  const batches = [row(1, "a", "b"), row(2, "c"), row(2, "d", "e"), row(3, "f")]
  const idsAfter = (after: string, limit = 9): string[] => {
    const read = batches.filter(({ batch }) => batch >= parseEventId(after)!.batch)
    return eventsAfter(read, after, { limit }).events.map(({ runId, id }) => `${id} ${runId}`)
  }

  it("are numbered through all rows of a batch", () => {
    expect(idsAfter("0.0")).toEqual(["1.0 a", "1.1 b", "2.0 c", "2.1 d", "2.2 e", "3.0 f"])
  })

  it("continue within a batch", () => {
    expect(idsAfter("1.0", 2)).toEqual(["1.1 b", "2.0 c"])
    expect(idsAfter("2.0")).toEqual(["2.1 d", "2.2 e", "3.0 f"])
    expect(idsAfter("2.1")).toEqual(["2.2 e", "3.0 f"])
    expect(idsAfter("2.2")).toEqual(["3.0 f"])
  })

  it("of other runs move the cursor", () => {
    expect(eventsAfter(batches.slice(1), "1.1", { runId: "c" as RunId, limit: 9 })).toMatchObject({
      events: [{ id: "2.0" }],
      cursor: "3.0",
    })
  })
})
