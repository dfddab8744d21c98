// The worker protocol: what is proven, what is refused, what is given back.

import { expect, onTestFinished, test } from "vitest"
import { encodeFrame } from "../../protocol/wire/log-frames.ts"
import { setup as setupApi } from "../testing/setup.ts"

interface Given {
  row: number
  attempt_id: string
  token: string
}

interface Claimed {
  assignments: Given[]
  stop: { attempt_id: string; reason: string }[]
  lost: string[]
  over: string[]
  gone?: string[]
}

const BYTES = "application/octet-stream"
const END = { state: "success", started_at: 1, finished_at: 2, output: { inline: 1 } }

/** A server that takes no work of the queue `far` itself. */
const setup = async (config: { failuresPerMinute?: number } = {}) => {
  const api = await setupApi({ lanes: ["q:default"], config: { ...config } })
  onTestFinished(() => api[Symbol.asyncDispose]())
  await api.deploy("far", { a: { command: "x", queue: "far" } })
  const hire = async (name = "w") => {
    const made = await api.call("POST", "/workers", { body: { name, queues: ["far"], capacity: 4 } })
    const { id, token } = made.body as unknown as { id: string; token: string }
    const ask = (verb: string, body?: unknown, key = token) => api.call("POST", `/workers/${id}/${verb}`, { body, key })
    return {
      id,
      token,
      ask,
      claim: async (body: object = {}): Promise<Claimed> =>
        (await ask("claim", { free: 4, wait_ms: 0, known: [], ...body })).body as unknown as Claimed,
      poll: async (body: object = {}): Promise<Claimed> =>
        (await ask("claim", { free: 4, wait_ms: 20_000, ...body })).body as unknown as Claimed,
      report: (entry: object) => ask("report", { now: Date.now(), entries: [entry] }),
    }
  }
  const run = async (): Promise<string> => (await api.call("POST", "/workflows/far/runs")).body["id"] as string
  const task = async (runId: string) => (await api.call("GET", `/runs/${runId}/tasks/a`)).body
  return { api, hire, run, task }
}

test("a long poll is answered when there is work, and its report ends the run", async () => {
  const { api, hire, run } = await setup()
  const worker = await hire()
  const polling = worker.poll()
  const runId = await run()
  const { assignments } = await polling
  expect(assignments).toHaveLength(1)
  expect((await worker.report({ ...fence(assignments[0]!), kind: "ended", result: END })).body).toEqual({ refused: [] })
  expect((await api.engine.waitForRun(runId as never)).status).toBe("success")
})

test("what a worker was given but does not know goes back, uncounted, and comes again under another attempt", async () => {
  const { hire, run, task } = await setup()
  const worker = await hire()
  const polling = worker.poll()
  const runId = await run()
  const [first] = (await polling).assignments
  const known = await worker.claim({ known: [first!.attempt_id] })
  expect(known).toEqual({ assignments: [], stop: [], lost: [], over: [] })
  const again = await worker.poll({ known: [] })
  expect(again.assignments[0]!.attempt_id).not.toBe(first!.attempt_id)
  expect(await task(runId)).toMatchObject({ status: "dispatched", attempt: 1 })
  expect((await worker.claim({ known: [first!.attempt_id, again.assignments[0]!.attempt_id] })).lost).toEqual([
    first!.attempt_id,
  ])
})

test("a cancel ends a long poll, whatever is free, and is told until it is heard", async () => {
  const { api, hire, run } = await setup()
  const worker = await hire()
  const runId = await run()
  const [given] = (await worker.poll()).assignments
  const polling = worker.poll({ free: 0 })
  await api.call("POST", `/runs/${runId}/cancel`)
  const stop = [{ attempt_id: given!.attempt_id, reason: "cancel" }]
  expect((await polling).stop).toEqual(stop)
  expect((await worker.ask("heartbeat")).body).toEqual({ stop })
  expect((await worker.claim({ known: [given!.attempt_id], stopping: [given!.attempt_id] })).stop).toEqual([])
  const result = { state: "cancelled", started_at: null, finished_at: Date.now() }
  await worker.report({ ...fence(given!), kind: "ended", result })
  expect((await api.engine.waitForRun(runId as never)).status).toBe("cancelled")
  const asked = { runs: [runId] }
  expect(await worker.claim(asked)).toMatchObject({ over: [runId] })
  expect((await worker.claim(asked)).gone).toBeUndefined()
  expect((await api.call("DELETE", `/runs/${runId}`)).status).toBe(204)
  expect(await worker.claim(asked)).toMatchObject({ over: [runId], gone: [runId] })
})

test("a worker speaks for itself alone, and an attempt for itself alone", async () => {
  const { api, hire, run, task } = await setup()
  const [worker, other] = [await hire("one"), await hire("two")]
  const runId = await run()
  const [given] = (await worker.poll()).assignments
  const entry = { ...fence(given!), kind: "ended", result: END }
  const body = { now: Date.now(), entries: [entry] }
  expect((await worker.ask("report", body, other.token)).status).toBe(403)
  expect((await worker.ask("report", body, await api.newKey("worker"))).status).toBe(403)
  expect((await other.ask("report", body)).status).toBe(409)
  expect((await worker.report({ ...entry, token: "made up" })).status).toBe(409)
  expect((await worker.ask("report", body, `${worker.token.slice(0, -1)}x`)).status).toBe(401)
  expect(await task(runId)).toMatchObject({ status: "dispatched" })
  expect((await api.call("GET", "/runs", { key: worker.token })).status).toBe(403)
  expect((await worker.report(entry)).status).toBe(200)
  expect((await worker.report(entry)).status).toBe(409)
})

test("a worker that was given up on is refused, and what it had goes to others", async () => {
  const { api, hire, run, task } = await setup()
  const [worker, heir] = [await hire("one"), await hire("two")]
  const runId = await run()
  const [given] = (await worker.poll()).assignments
  const polling = heir.poll()
  expect((await api.call("DELETE", `/workers/${worker.id}`)).status).toBe(204)
  const [again] = (await polling).assignments
  for (const verb of ["heartbeat", "claim", "report"]) {
    const body = { claim: { free: 1 }, report: { now: 1, entries: [{ ...fence(given!), kind: "released" }] } }[verb]
    expect((await worker.ask(verb, body)).status).toBe(409)
  }
  await heir.report({ ...fence(again!), kind: "ended", result: END })
  expect(await task(runId)).toMatchObject({ status: "success", attempt: 2, worker: "two" })
})

test("pieces of a log may come twice, and not before those before them", async () => {
  const { api, hire, run } = await setup()
  const worker = await hire()
  const runId = await run()
  const [given] = (await worker.poll()).assignments
  const send = async (number: number, offset: number, text: string): Promise<number | null> => {
    const record = Buffer.alloc(24)
    record.writeBigUInt64LE(BigInt(offset), 0)
    record.writeUInt32LE(text.length, 16)
    record.writeUInt32LE(1, 20)
    const header = { ...fence(given!), number, offset, record: number - 1 }
    const body = Buffer.concat(encodeFrame(header, record, Buffer.from(text)))
    const options = { body, key: worker.token, headers: { "content-type": BYTES } }
    const answer = await api.call("POST", `/workers/${worker.id}/logs`, options)
    return (answer.body["logs"] as { next: number | null }[])[0]!.next
  }
  expect(await send(1, 0, "one\n")).toBe(4)
  expect(await send(3, 8, "three\n")).toBe(4)
  expect(await send(1, 0, "one\n")).toBe(4)
  expect(await send(2, 4, "two\n")).toBe(8)
  expect(await send(2, 4, "two\n")).toBe(8)
  expect((await api.call("GET", `/runs/${runId}/tasks/a/logs`)).text).toBe("one\ntwo\n")
  await worker.report({ ...fence(given!), kind: "released" })
  expect(await send(3, 8, "three\n")).toBeNull()
})

test("an output that was not sent, or is too large, fails its attempt with the reason", async () => {
  const { api, hire, run, task } = await setup()
  const worker = await hire()
  const runId = await run()
  const [given] = (await worker.poll()).assignments
  const query = `?row=${given!.row}&attempt_id=${given!.attempt_id}`
  const headers = { "content-type": BYTES, "x-ork-attempt-token": given!.token }
  const large = { body: Buffer.alloc(1_100_000, "1"), key: worker.token, headers }
  const refused = await api.call("POST", `/workers/${worker.id}/outputs${query}`, large)
  expect([refused.status, refused.body.error?.message]).toEqual([413, expect.stringContaining("at most 1048576 bytes")])
  await worker.report({ ...fence(given!), kind: "ended", result: { ...END, output: { bytes: 1_100_000 } } })
  expect(await task(runId)).toMatchObject({ status: "failed", error: expect.stringContaining("did not arrive") as string })
})

const fence = ({ row, attempt_id, token }: Given): Given => ({ row, attempt_id, token })

test("a worker's own token counts also where its neighbours guess keys, and a wrong one is slowed down like theirs", async () => {
  const { api, hire } = await setup({ failuresPerMinute: 3 })
  const worker = await hire()
  for (let i = 0; i < 3; i++) expect((await api.call("GET", "/runs", { key: `wrong ${i}` })).status).toBe(401)
  expect((await api.call("GET", "/runs", { key: "wrong again" })).status).toBe(429)
  expect((await worker.ask("heartbeat")).status).toBe(200)
  expect((await worker.ask("heartbeat", undefined, `${worker.token.slice(0, -1)}x`)).status).toBe(429)
})
