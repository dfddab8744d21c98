// The worker protocol: authentication, rejected reports, released claims.

import { expect, onTestFinished, test } from "vitest"
import { iso } from "../../../core/model/ports.ts"
import { encodeFrame } from "../../../protocol/wire/log-frames.ts"
import { setup as setupApi } from "../../testing/setup.ts"

interface Assignment {
  row: number
  attempt_id: string
  token: string
}

interface Claimed {
  assignments: Assignment[]
  stop: { attempt_id: string; reason: string }[]
  lost: string[]
  over: string[]
  gone?: string[]
}

const BYTES = "application/octet-stream"
const END = { state: "success", started_at: 1, finished_at: 2, output: { inline: 1 } }

/** Starts a server that does not claim from the queue `far`. */
const setup = async (config: { failuresPerMinute?: number } = {}) => {
  const api = await setupApi({ lanes: ["q:default"], config })
  onTestFinished(() => api[Symbol.asyncDispose]())
  await api.deploy("far", { a: { command: "x", queue: "far" } })
  const register = async (name = "w") => {
    const registered = await api.call("POST", "/workers", { body: { name, queues: ["far"], capacity: 4 } })
    const { id, token } = registered.body as unknown as { id: string; token: string }
    const call = (verb: string, body?: unknown, key = token) => api.call("POST", `/workers/${id}/${verb}`, { body, key })
    return {
      id,
      token,
      call,
      claim: async (body: object = {}): Promise<Claimed> =>
        (await call("claim", { free: 4, wait_ms: 0, known: [], ...body })).body as unknown as Claimed,
      poll: async (body: object = {}): Promise<Claimed> =>
        (await call("claim", { free: 4, wait_ms: 20_000, ...body })).body as unknown as Claimed,
      report: (entry: object, more: object = {}) => call("report", { now: Date.now(), entries: [entry], ...more }),
    }
  }
  const run = async (): Promise<string> => (await api.call("POST", "/workflows/far/runs")).body["id"] as string
  const task = async (runId: string) => (await api.call("GET", `/runs/${runId}/tasks/a`)).body
  return { api, register, run, task }
}

test("a long poll returns when there is work, and the report of its result finishes the run", async () => {
  const { api, register, run } = await setup()
  const worker = await register()
  const polling = worker.poll()
  const runId = await run()
  const { assignments } = await polling
  expect(assignments).toHaveLength(1)
  expect((await worker.report({ ...fence(assignments[0]!), kind: "ended", result: END })).body).toEqual({ refused: [] })
  expect((await api.engine.waitForRun(runId as never)).status).toBe("success")
})

test("the response to a report brings the next tasks, also those that its result makes ready", async () => {
  const { api, register } = await setup()
  const worker = await register()
  await api.deploy("chain", { a: { command: "x", queue: "far" }, b: { command: "x", queue: "far", depends_on: ["a"] } })
  const { id } = (await api.call("POST", "/workflows/chain/runs")).body as { id: string }
  const [first] = (await worker.poll({ known: [] })).assignments
  const reply = await worker.report({ ...fence(first!), kind: "ended", result: END }, { free: 4 })
  const { refused, assignments } = reply.body as unknown as { refused: string[]; assignments: Assignment[] }
  expect([refused, assignments.length]).toEqual([[], 1])
  expect((await worker.claim({ known: [assignments[0]!.attempt_id] })).lost).toEqual([])
  const last = await worker.report({ ...fence(assignments[0]!), kind: "ended", result: END }, { free: 4 })
  expect(last.body).toEqual({ refused: [], assignments: [] })
  expect((await api.engine.waitForRun(id as never)).status).toBe("success")
})

test("a report that is rejected claims nothing", async () => {
  const { register, run, task } = await setup()
  const worker = await register()
  await run()
  const [first] = (await worker.poll({ known: [] })).assignments
  const second = await run()
  const entry = { ...fence(first!), token: "made up", kind: "ended", result: END }
  expect((await worker.report(entry, { free: 4 })).status).toBe(409)
  expect(await task(second)).toMatchObject({ status: "pending" })
})

test("a claim that the worker does not know is released uncounted and claimed again under another attempt id", async () => {
  const { register, run, task } = await setup()
  const worker = await register()
  const polling = worker.poll()
  const runId = await run()
  const [first] = (await polling).assignments
  const known = await worker.claim({ known: [first!.attempt_id] })
  expect(known).toEqual({ assignments: [], stop: [], lost: [], closed: [] })
  const again = await worker.poll({ known: [] })
  expect(again.assignments[0]!.attempt_id).not.toBe(first!.attempt_id)
  expect(await task(runId)).toMatchObject({ status: "dispatched", attempt: 1 })
  expect((await worker.claim({ known: [first!.attempt_id, again.assignments[0]!.attempt_id] })).lost).toEqual([
    first!.attempt_id,
  ])
})

test("a cancel request ends a long poll also without free slots, and is repeated until the worker acknowledges it", async () => {
  const { api, register, run } = await setup()
  const worker = await register()
  const runId = await run()
  const [assignment] = (await worker.poll()).assignments
  const polling = worker.poll({ free: 0 })
  await api.call("POST", `/runs/${runId}/cancel`)
  const stop = [{ attempt_id: assignment!.attempt_id, reason: "cancel" }]
  expect((await polling).stop).toEqual(stop)
  expect((await worker.call("heartbeat")).body).toEqual({ stop })
  expect((await worker.claim({ known: [assignment!.attempt_id], stopping: [assignment!.attempt_id] })).stop).toEqual([])
  const result = { state: "cancelled", started_at: null, finished_at: Date.now() }
  await worker.report({ ...fence(assignment!), kind: "ended", result })
  expect((await api.engine.waitForRun(runId as never)).status).toBe("cancelled")
  const withRuns = { runs: [runId] }
  expect(await worker.claim(withRuns)).toMatchObject({ closed: [runId] })
  expect((await worker.claim(withRuns)).gone).toBeUndefined()
  expect((await api.call("DELETE", `/runs/${runId}`)).status).toBe(204)
  expect(await worker.claim(withRuns)).toMatchObject({ closed: [runId], gone: [runId] })
})

test("the token of a worker works only for that worker, the token of an attempt only for that attempt", async () => {
  const { api, register, run, task } = await setup()
  const [worker, other] = [await register("one"), await register("two")]
  const runId = await run()
  const [assignment] = (await worker.poll()).assignments
  const entry = { ...fence(assignment!), kind: "ended", result: END }
  const body = { now: Date.now(), entries: [entry] }
  expect((await worker.call("report", body, other.token)).status).toBe(403)
  expect((await worker.call("report", body, await api.newKey("worker"))).status).toBe(403)
  expect((await other.call("report", body)).status).toBe(409)
  expect((await worker.report({ ...entry, token: "made up" })).status).toBe(409)
  expect((await worker.call("report", body, `${worker.token.slice(0, -1)}x`)).status).toBe(401)
  expect(await task(runId)).toMatchObject({ status: "dispatched" })
  expect((await api.call("GET", "/runs", { key: worker.token })).status).toBe(403)
  expect((await worker.report(entry)).status).toBe(200)
  expect((await worker.report(entry)).status).toBe(409)
})

test("an evicted worker is rejected, and its attempts go to others", async () => {
  const { api, register, run, task } = await setup()
  const [worker, successor] = [await register("one"), await register("two")]
  const runId = await run()
  const [assignment] = (await worker.poll()).assignments
  const polling = successor.poll()
  expect((await api.call("DELETE", `/workers/${worker.id}`)).status).toBe(204)
  const [again] = (await polling).assignments
  for (const verb of ["heartbeat", "claim", "report"]) {
    const body = { claim: { free: 1 }, report: { now: 1, entries: [{ ...fence(assignment!), kind: "released" }] } }[verb]
    expect((await worker.call(verb, body)).status).toBe(409)
  }
  await successor.report({ ...fence(again!), kind: "ended", result: END })
  expect(await task(runId)).toMatchObject({ status: "success", attempt: 2, worker: "two" })
})

test("a log accepts repeated frames and rejects a frame before its predecessor", async () => {
  const { api, register, run } = await setup()
  const worker = await register()
  const runId = await run()
  const [assignment] = (await worker.poll()).assignments
  const send = async (number: number, offset: number, text: string): Promise<number | null> => {
    const record = Buffer.alloc(24)
    record.writeBigUInt64LE(BigInt(offset), 0)
    record.writeUInt32LE(text.length, 16)
    record.writeUInt32LE(1, 20)
    const header = { ...fence(assignment!), number, offset, record: number - 1 }
    const body = Buffer.concat(encodeFrame(header, record, Buffer.from(text)))
    const options = { body, key: worker.token, headers: { "content-type": BYTES } }
    const response = await api.call("POST", `/workers/${worker.id}/logs`, options)
    return (response.body["logs"] as { next: number | null }[])[0]!.next
  }
  expect(await send(1, 0, "one\n")).toBe(4)
  expect(await send(3, 8, "three\n")).toBe(4)
  expect(await send(1, 0, "one\n")).toBe(4)
  expect(await send(2, 4, "two\n")).toBe(8)
  expect(await send(2, 4, "two\n")).toBe(8)
  expect((await api.call("GET", `/runs/${runId}/tasks/a/logs`)).text).toBe("one\ntwo\n")
  await worker.report({ ...fence(assignment!), kind: "released" })
  expect(await send(3, 8, "three\n")).toBeNull()
})

test("an output that is missing or too large fails its attempt with the reason", async () => {
  const { api, register, run, task } = await setup()
  const worker = await register()
  const runId = await run()
  const [assignment] = (await worker.poll()).assignments
  const query = `?row=${assignment!.row}&attempt_id=${assignment!.attempt_id}`
  const headers = { "content-type": BYTES, "x-ork-attempt-token": assignment!.token }
  const large = { body: Buffer.alloc(1_100_000, "1"), key: worker.token, headers }
  const rejected = await api.call("POST", `/workers/${worker.id}/outputs${query}`, large)
  expect([rejected.status, rejected.body.error?.message]).toEqual([413, expect.stringContaining("at most 1048576 bytes")])
  await worker.report({ ...fence(assignment!), kind: "ended", result: { ...END, output: { bytes: 1_100_000 } } })
  expect(await task(runId)).toMatchObject({ status: "failed", error: expect.stringContaining("did not arrive") as string })
})

const fence = ({ row, attempt_id, token }: Assignment): Assignment => ({ row, attempt_id, token })

test("the token of a worker works from a throttled address, and a wrong token is throttled", async () => {
  const { api, register } = await setup({ failuresPerMinute: 3 })
  const worker = await register()
  for (let i = 0; i < 3; i++) expect((await api.call("GET", "/runs", { key: `wrong ${i}` })).status).toBe(401)
  expect((await api.call("GET", "/runs", { key: "wrong again" })).status).toBe(429)
  expect((await worker.call("heartbeat")).status).toBe(200)
  expect((await worker.call("heartbeat", undefined, `${worker.token.slice(0, -1)}x`)).status).toBe(429)
})

test("a server whose process is gone is dead, and was last seen when it last renewed its lease", async () => {
  await using own = await setupApi({ isHolderAlive: () => false })
  const { body } = await own.call("GET", "/workers")
  const [server] = body["items"] as { alive: boolean; last_seen_at: string; lease_until: string }[]
  expect(server).toMatchObject({ alive: false })
  const [holder] = await own.store.listHolders()
  expect(server!.last_seen_at).toBe(iso(Date.parse(holder!.leaseUntil) - holder!.leaseMs))
})
