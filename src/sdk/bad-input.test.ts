// What a program does wrong: each has an error class of its own with advice, and writes nothing.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { expect, it, onTestFinished, vi } from "vitest"
import { OrkClient } from "./client.ts"
import { signal, task, txTask, workflow } from "./definitions.ts"
import type { StepTools } from "./durable/step-tools.ts"
import {
  ConflictError,
  NewerDatabaseError,
  NotFoundError,
  NotJsonError,
  OrkError,
  StoppedError,
  TaskFailedError,
} from "./errors.ts"
import { graph } from "./graph/graph.ts"
import { Ork } from "./ork.ts"
import type { EnqueueOptions } from "./orkable.ts"
import { startWorker } from "./start-worker.ts"
import { testOrk } from "./test.ts"

const plain = task("plain", {}, () => null)

const temporaryFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "ork-bad-input-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

it.each([
  ["a function", () => () => 1, "it is a function"],
  ["a bigint", () => 1n, "BigInt"],
  [
    "a cycle",
    () => {
      const list: unknown[] = []
      list.push(list)
      return list
    },
    "circular",
  ],
])("an input that is %s is no JSON, and creates no job", async (_, create, reason) => {
  await using ork = await testOrk({ run: [plain] })
  const rejected = ork.enqueueAll(plain, [1, create()])
  await expect(rejected).rejects.toThrow(NotJsonError)
  await expect(rejected).rejects.toThrow(reason)
  await expect(rejected).rejects.toThrow("use texts, numbers, booleans, null, and lists and objects of them")
  expect(await Array.fromAsync(ork.list({ def: plain }))).toEqual([])
})

/** Values that types cannot rule out, or that a program in JavaScript passes on. */
const given = (value: unknown): never => value as never

it.each([
  ["a priority over 10", { priority: 11 }, "priority is 11, but must be a whole number from 1 to 10"],
  ["a priority that is a text", { priority: given("8") }, "priority is"],
  ["a priority that is no number", { priority: Number.NaN }, "priority is NaN"],
  ["an empty key", { key: "" }, 'key is "", but must be a text of 1 to 255 characters'],
  ["a key that is too long", { key: "k".repeat(256) }, "key is"],
  ["a key that is a number", { key: given(7) }, "key is 7"],
  ["an unknown rule for keys", { key: "k", onConflict: given("ignore") }, "onConflict is"],
  ["a delay without a unit", { delay: given("soon") }, 'delay is "soon"'],
  ["a delay of centuries", { delay: 1e15 }, "at most ten years"],
  ["an invalid date", { at: new Date(Number.NaN) }, "at is Invalid Date"],
  ["a date that no database knows", { at: new Date(8.64e15) }, "a Date of the years 1970 to 9999"],
  ["a date that is a text", { at: given("2026-01-01") }, "at is"],
  ["two times", { at: new Date(), delay: "1s" as const }, "give one of them"],
] satisfies [string, EnqueueOptions, string][])(
  "enqueue with %s creates no job and no run",
  async (_, options: EnqueueOptions, reason) => {
    const flow = workflow("flow", {}, () => null)
    await using ork = await testOrk({ run: [plain, flow] })
    for (const enqueue of [
      () => ork.enqueue(plain, null, options),
      () => ork.enqueueAll(plain, [null], options),
      () => ork.enqueue(flow, {}, options),
    ]) {
      await expect(enqueue()).rejects.toThrow(TypeError)
      await expect(enqueue()).rejects.toThrow(reason)
    }
    expect(await Array.fromAsync(ork.list({ def: plain }))).toEqual([])
    expect(await Array.fromAsync(ork.list({ def: flow }))).toEqual([])
  },
)

it("a run is not delayed, and not replaced", async () => {
  const flow = workflow("flow", {}, () => null)
  await using ork = await testOrk({ run: [flow] })
  await expect(ork.enqueue(flow, {}, { delay: "1s" })).rejects.toThrow("workflow flow cannot be delayed: begin it with a sleep")
  await expect(ork.enqueue(flow, {}, { key: "k", onConflict: "replace" })).rejects.toThrow("cancel the run that has the key")
  expect(await Array.fromAsync(ork.list({ def: flow }))).toEqual([])
})

it("a delay of a fraction of a millisecond is rounded", async () => {
  await using ork = await testOrk({ run: [plain] })
  const job = await ork.enqueue(plain, null, { delay: 0.4 })
  await ork.advance(1)
  expect((await job.refresh()).status).toBe("completed")
})

it.each<[string, Parameters<typeof task>[1], string]>([
  ["a limit of 0", { limit: { concurrency: 0 } }, "limit.concurrency is 0, but must be a whole number from 1 to 1000000"],
  ["a limit that is no whole number", { limit: { concurrency: 1.5 } }, "limit.concurrency is 1.5"],
  ["a limit of groups of 0", { group: () => "a", limit: { perGroup: 0 } }, "limit.perGroup is 0"],
  ["a rate of 0", { limit: { rate: [0, "1s"] } }, "limit.rate is 0"],
  ["a rate without a period", { limit: { rate: given([5]) } }, 'such as [100, "1s"]'],
  ["a rate in no time", { limit: { rate: [1, 0] } }, "limit.rate must be more than 0"],
  ["no time to run", { timeout: 0 }, "timeout must be more than 0"],
  ["no time to start", { expires: 0.2 }, "expires must be more than 0"],
  ["a queue that the API cannot name", { queue: "a b" }, '"a b" is not a valid queue name'],
  ["an unknown backoff", { retry: { backoff: given("none") } }, "must be one of fixed, linear, exponential"],
  ["a group that is no function", { group: given("tenant") }, "group is not a function"],
  ["a schema of an unknown kind", { input: given({ n: "number" }) }, "input is no Standard Schema"],
])("a task with %s cannot be declared", (_, options, reason) => {
  expect(() => task("wrong", options, () => 1)).toThrow(TypeError)
  expect(() => task("wrong", options, () => 1)).toThrow(reason)
})

it.each<[string, () => unknown, string]>([
  [
    "task",
    () => task("wrong", given({ timout: "1s" }), () => 1),
    "task wrong: there is no option timout; did you mean timeout?",
  ],
  [
    "task without options",
    () => task("wrong", given(undefined), () => 1),
    "task wrong: the options must be an object, such as {}",
  ],
  ["txTask", () => txTask("wrong", given({ retries: 5 }), () => 1), "the options are input, queue, version, priority, retry"],
  [
    "retry",
    () => task("wrong", { retry: given({ max: 5 }) }, () => 1),
    "retry: there is no option max (the options are attempts,",
  ],
  [
    "limit",
    () => task("wrong", { limit: given({ pergroup: 1 }) }, () => 1),
    "limit: there is no option pergroup; did you mean perGroup?",
  ],
  ["workflow", () => workflow("wrong", given({ expires: "1s" }), () => 1), "workflow wrong: there is no option expires"],
  [
    "graph",
    () => graph("wrong", given({ maxactiveruns: 1 }), () => {}),
    "graph wrong: there is no option maxactiveruns; did you mean maxA",
  ],
  [
    "Ork.open",
    () => Ork.open(given({ run: [], databse: "x" })),
    "Ork.open: there is no option databse; did you mean database?",
  ],
  ["Ork.open without options", () => Ork.open(given(undefined)), "Ork.open: the options must be an object"],
  [
    "retention",
    () => Ork.open({ run: [], retention: given({ dyas: 1 }) }),
    "retention: there is no option dyas; did you mean days?",
  ],
  ["startWorker", () => startWorker(given({ sever: "x" })), "startWorker: there is no option sever; did you mean server?"],
  ["testOrk", () => testOrk(given({ run: [], sed: 1 })), "testOrk: there is no option sed; did you mean seed?"],
  ["OrkClient", () => new OrkClient(given({ uri: "x" })), "OrkClient: there is no option uri; did you mean url?"],
])("an unknown option of %s is named, with the options that exist", async (_, declare, reason) => {
  const declared = async (): Promise<unknown> => await declare()
  await expect(declared()).rejects.toThrow(TypeError)
  await expect(declared()).rejects.toThrow(reason)
})

it("an unknown option of a call is named, and nothing is written", async () => {
  const flow = workflow("flow", {}, () => null)
  await using program = await testOrk({ run: [plain, flow] })
  const fetch = vi.fn<typeof globalThis.fetch>()
  const client = new OrkClient({ url: "http://127.0.0.1:1", key: "k", fetch })
  for (const ork of [program, client]) {
    const calls: [() => Promise<unknown>, string][] = [
      [() => ork.enqueue(plain, null, given({ delya: 5 })), "enqueue: there is no option delya; did you mean delay?"],
      [
        () => ork.enqueue(flow, {}, given({ idempotencyKey: "k" })),
        "enqueue: there is no option idempotencyKey (the options are key,",
      ],
      [() => ork.enqueueAll(plain, [null], given({ prio: 5 })), "there is no option prio (the options are key, onConflict,"],
      [() => ork.enqueueAll(plain, [null], given({ key: "k" })), "enqueueAll takes no key"],
      [
        () => ork.schedule("s", "0 8 * * 1", plain, {}, given({ timeZone: "UTC" })),
        'the schedule "s": there is no option timeZone; did',
      ],
      [
        () => Array.fromAsync(ork.list(given({ def: plain, state: [] }))),
        "list: there is no option state (the options are def, status)",
      ],
      [() => ork.signal("x", signal("paid"), null, given({ id: 1 })), "signal: there is no option id"],
      [() => ork.approve("x", "y", given({ coment: "" })), "approve: there is no option coment; did you mean comment?"],
      [async () => ork.events(given({ from: "1" })), "events: there is no option from"],
    ]
    for (const [call, reason] of calls) {
      await expect(call()).rejects.toThrow(TypeError)
      await expect(call()).rejects.toThrow(reason)
    }
  }
  await expect(client.enqueue(plain, null, given({ tx: {} }))).rejects.toThrow("an OrkClient enqueues in no transaction (tx)")
  expect(fetch).not.toHaveBeenCalled()
  expect(await Array.fromAsync(program.list({ def: plain }))).toEqual([])
  expect(await Array.fromAsync(program.list({ def: flow }))).toEqual([])
  for (const work of [await program.enqueue(plain, null), await program.enqueue(flow, {})]) {
    await expect(work.result(given({ timout: "1s" }))).rejects.toThrow(
      "result: there is no option timout; did you mean timeout?",
    )
    await expect(work.retry(given({ step: "x" }))).rejects.toThrow("retry: there is no option step (the options are from)")
  }
})

it.each<[string, (step: StepTools) => Promise<unknown>, string]>([
  [
    "run",
    (step) => step.run("a", () => 1, given({ attempts: 5 })),
    "step a: there is no option attempts (the options are retry)",
  ],
  ["waitFor", (step) => step.waitFor(signal("paid"), given({ timout: "1s" })), "the wait for paid: there is no option timout"],
  ["approval", (step) => step.approval("a", given({ comment: "x" })), "step a: there is no option comment"],
  [
    "approval with another default",
    (step) => step.approval("a", { default: given("yes") }),
    'default is "yes", but must be one of',
  ],
  ["call", (step) => step.call(plain, null, given({ key: "x" })), "step.call of plain: there is no option key"],
])("an unknown option of step.%s fails the function", async (_, call, reason) => {
  const flow = workflow("flow", {}, async (_input, step) => void (await call(step)))
  await using ork = await testOrk({ run: [plain, flow] })
  const run = await ork.enqueue(flow, {})
  await ork.advance("1s")
  await expect(run.result()).rejects.toThrow(reason)
})

it("options that are undefined have their defaults", () => {
  const { retry, timeoutMs, queue } = task(
    "optional",
    { retry: { attempts: given(undefined) }, timeout: given(undefined), queue: given(undefined) },
    () => 1,
  )
  expect({ attempts: retry.maxAttempts, timeoutMs, queue }).toEqual({ attempts: 3, timeoutMs: 3_600_000, queue: "default" })
})

it("a group is a text", async () => {
  const grouped = task("grouped", { group: (tenant) => given(tenant) }, () => null)
  await using ork = await testOrk({ run: [grouped] })
  await expect(ork.enqueue(grouped, null)).rejects.toThrow("task grouped: what group returned is null")
  await expect(ork.enqueue(grouped, "t".repeat(256))).rejects.toThrow("must be a text of 1 to 255 characters")
  expect(await Array.fromAsync(ork.list({ def: grouped }))).toEqual([])
})

it("a signal has a name, and a schema of a known kind", () => {
  expect(() => signal("")).toThrow("the name of a signal is")
  expect(() => signal("paid", given({ cents: "number" }))).toThrow("signal paid: schema is no Standard Schema")
})

it("what is not a definition is neither enqueued nor run", async () => {
  await using ork = await testOrk({ run: [plain] })
  for (const value of ["plain", undefined, () => null, { name: "plain" }, signal("paid")])
    await expect(ork.enqueue(given(value), null)).rejects.toThrow(
      "enqueue takes what task, txTask, workflow, graph or yaml returned",
    )
  await expect(ork.enqueueAll(given(workflow("flow", {}, () => null)), [{}])).rejects.toThrow("enqueueAll takes a task")
  for (const run of [[signal("paid")], [() => null], [undefined]])
    await expect(Ork.open({ run: given(run) })).rejects.toThrow("Ork.open: run takes what task")
  await expect(Ork.open({ run: given(undefined) })).rejects.toThrow("run must be a list of the definitions")
})

it.each([0, 1.5, Number.NaN, 1e9])("a program cannot run %s handlers at once", async (concurrency) => {
  await expect(Ork.open({ run: [plain], concurrency })).rejects.toThrow("concurrency is")
})

it("a result of a step that is not JSON fails the step at once, and the function can catch it", async () => {
  let tries = 0
  const flow = workflow("flow", {}, async (_, step) => {
    const count = (): number => {
      tries++
      return 1n as unknown as number
    }
    return await step
      .run("count", count)
      .catch((error: unknown) => error instanceof TaskFailedError && error.message.includes("is not JSON"))
  })
  await using ork = await testOrk({ run: [flow] })
  const run = await ork.enqueue(flow, {})
  await ork.advance("1h")
  expect(await run.result()).toBe(true)
  expect(tries).toBe(1)
})

it("a result of a task that is not JSON fails its job with the reason", async () => {
  const big = task("big", { retry: { attempts: 1 } }, () => 1n as unknown as number)
  await using ork = await testOrk({ run: [big] })
  const job = await ork.enqueue(big, null)
  await ork.advance("1s")
  await expect(job.result()).rejects.toThrow("cannot be written as JSON")
})

it("a database of a newer Ork is left as it is", async () => {
  const file = join(temporaryFolder(), "app.db")
  const options = { database: `sqlite:${file}`, objects: `file:${file}-objects`, run: [] }
  await (await Ork.open(options)).stop()
  const database = new DatabaseSync(file)
  const version = (database.prepare("PRAGMA user_version").get() as { user_version: number }).user_version
  database.exec(`PRAGMA user_version = ${version + 1000}`)
  database.close()
  const opened = Ork.open(options)
  await expect(opened).rejects.toThrow(NewerDatabaseError)
  await expect(opened).rejects.toThrow("run the newer Ork that wrote it")
})

it("an engine that was stopped does nothing more", async () => {
  const file = join(temporaryFolder(), "app.db")
  const flow = workflow("flow", {}, async (_, step) => await step.sleep("a while", "1h"))
  const ork = await Ork.open({ database: `sqlite:${file}`, objects: `file:${file}-objects`, run: [plain, flow] })
  const run = await ork.enqueue(flow, {})
  // More than one page.
  const page = await ork.enqueueAll(
    plain,
    Array.from({ length: 101 }, () => null),
  )
  const job = page[0]!
  const listing = ork.list({ def: plain })
  await listing.next()
  await ork.stop()
  await expect(ork.enqueue(plain, null)).rejects.toThrow(StoppedError)
  await expect(ork.get("01890a5d-ac96-774b-bcce-b302099a8057")).rejects.toThrow("call Ork.open again")
  for (const work of [job, run]) {
    await expect(work.result()).rejects.toThrow(StoppedError)
    await expect(work.refresh()).rejects.toThrow(StoppedError)
    await expect(work.cancel()).rejects.toThrow(StoppedError)
    await expect(work.retry()).rejects.toThrow(StoppedError)
  }
  await expect(listing.next()).resolves.toMatchObject({ done: false })
  await expect(Array.fromAsync(listing)).rejects.toThrow(StoppedError)
  expect(() => ork.events()).toThrow(StoppedError)
})

it("unknown runs, steps and names are named", async () => {
  const flow = workflow("flow", {}, async (_, step) => await step.sleep("a while", "1h"))
  const warn = vi.fn<(fields: object, message: string) => void>()
  await using ork = await testOrk({ run: [flow], log: { info: () => {}, warn, error: () => {} } })
  const run = await ork.enqueue(flow, {})
  await ork.advance("2h")
  await expect(run.retry({ from: "none" })).rejects.toThrow(ConflictError)
  await expect(ork.approve("none", "x")).rejects.toThrow(NotFoundError)
  expect(await ork.get("none")).toBeNull()
  await ork.enqueue(plain, null)
  expect(warn).toHaveBeenCalledExactlyOnceWith(
    expect.objectContaining({ function: "plain" }),
    "no live process runs the function of a job; it waits until one does",
  )
})

it("a status that the listed work never has is rejected", async () => {
  const flow = workflow("flow", {}, () => null)
  await using ork = await testOrk({ run: [plain, flow] })
  await ork.enqueue(flow, {})
  const listed = (def: typeof plain | typeof flow, status: never) => Array.fromAsync(ork.list({ def, status }))
  await expect(listed(plain, given(["cancelled"]))).rejects.toThrow(
    'no job has the status "cancelled"; its statuses are pending, ready, running, completed, failed, blocked',
  )
  await expect(listed(flow, given(["completed"]))).rejects.toThrow('no run has the status "completed"')
  await expect(listed(plain, given("failed"))).rejects.toThrow('status must be a list, such as ["failed"]')
})

it("a job that has not failed is not retried, and one that has ended is not cancelled", async () => {
  await using ork = await testOrk({ run: [plain] })
  const job = await ork.enqueue(plain, null)
  await ork.advance("1s")
  await expect(job.retry()).rejects.toThrow(`job ${job.id} is completed; only a failed job can be retried`)
  await expect(job.cancel()).rejects.toThrow(`job ${job.id} has ended as completed and cannot be cancelled`)
})

it.each([
  ["a name that no workflow has", "a b", "0 8 * * 1", {}, 'the schedule "a b": use a name of at most 128 letters'],
  ["a text that is no schedule", "s", "at eight", {}, 'the schedule "s": it needs five fields'],
  ["an unknown time zone", "s", "0 8 * * 1", { timezone: "Mars/X" }, '"Mars/X" is not a time zone'],
  ["an unknown overlap", "s", "0 8 * * 1", { overlap: given("never") }, "must be one of allow, skip, queue, cancel"],
  ["an unknown catchup", "s", "0 8 * * 1", { catchup: given(true) }, "must be one of none, latest, all"],
])("a schedule with %s is rejected", async (_, name, cron, options, reason) => {
  await using ork = await testOrk({ run: [plain] })
  await expect(ork.schedule(name, cron, plain, {}, options)).rejects.toThrow(TypeError)
  await expect(ork.schedule(name, cron, plain, {}, options)).rejects.toThrow(reason)
})

it("a schedule does not replace the workflow of its name, and does not remove it", async () => {
  const nightly = workflow("nightly", {}, () => "done")
  await using ork = await testOrk({ run: [nightly, plain] })
  for (const definition of [nightly, plain]) {
    await expect(ork.schedule("nightly", "0 2 * * *", given(definition), {})).rejects.toThrow(ConflictError)
    await expect(ork.schedule("nightly", "0 2 * * *", given(definition), {})).rejects.toThrow("such as nightly-daily")
  }
  await expect(ork.unschedule("nightly")).rejects.toThrow(ConflictError)
  await ork.schedule("every-night", "0 2 * * *", plain, {})
  await ork.schedule("every-night", "0 3 * * *", nightly, {})
  const run = await ork.enqueue(nightly, {})
  await ork.advance("1d")
  expect(await run.result()).toBe("done")
  expect(await Array.fromAsync(ork.list({ def: "every-night" }))).toMatchObject([{ status: "success" }])
})

it("errors of the SDK are recognised across copies of the package", () => {
  const other = new (class NotJsonCopy extends OrkError {
    static {
      this.prototype.name = "NotJsonError"
    }
  })("x")
  expect(other).toBeInstanceOf(NotJsonError)
  expect(new NotJsonError("x")).toBeInstanceOf(OrkError)
})
