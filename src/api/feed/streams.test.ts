import { expect, test } from "vitest"
import { listen } from "../http/server.ts"
import { openStream } from "../testing/client.ts"
import { setup } from "../testing/setup.ts"

const setupListening = async (change: Parameters<typeof setup>[0] = {}) => {
  const api = await setup(change)
  const url = await listen(api.server, { host: "127.0.0.1", port: 0 })
  return Object.assign(api, { url })
}

interface SentEvent {
  id: string
  event: string
  data: { run_id: string; task: string | null; status: string }
}

const eventsOf = (text: string): SentEvent[] =>
  text
    .split("\n\n")
    .filter((block) => block.startsWith("id: ") && block.includes("\ndata: "))
    .map((block) => {
      const [id, event, data] = block.split("\n").map((line) => line.slice(line.indexOf(": ") + 2))
      return { id: id!, event: event!, data: JSON.parse(data!) as SentEvent["data"] }
    })

test("a stream of all events has every event of a run, from its creation to its end", async () => {
  await using api = await setupListening()
  await api.deploy("etl", { a: "echo hi" })
  const stream = await openStream(`${api.url}/api/v1/events`)
  expect(stream.response.headers["content-type"]).toBe("text/event-stream")
  await stream.until(": ork")
  const id = await api.runToEnd("etl")
  const text = await stream.until(/"task":null[^\n]*"status":"success"/)
  const events = eventsOf(text).filter((event) => event.data.run_id === id)
  expect(events[0]).toMatchObject({ event: "run" })
  expect(events.map(({ event, data }) => `${event} ${data.status}`)).toContain("task running")
  expect(events.at(-1)).toMatchObject({ event: "run", data: { status: "success" } })
  stream.close()
})

test("a stream of one run has only its events and resumes after Last-Event-ID without a gap or a repeat", async () => {
  await using api = await setupListening()
  await api.deploy("etl", { a: "echo hi" })
  const [mine, other] = [await api.runToEnd("etl"), await api.runToEnd("etl")]
  const first = await openStream(`${api.url}/runs/${mine}/events`, { "last-event-id": "0.0" })
  const all = eventsOf(await first.until(/"task":null[^\n]*"status":"success"/))
  first.close()
  expect(all.every((event) => event.data.run_id === mine)).toBe(true)
  expect(all.some((event) => event.data.run_id === other)).toBe(false)
  const cut = Math.floor(all.length / 2)
  const second = await openStream(`${api.url}/runs/${mine}/events?after=${all[cut]!.id}`)
  const rest = eventsOf(await second.until(/"task":null[^\n]*"status":"success"/))
  second.close()
  expect(rest).toEqual(all.slice(cut + 1))
})

test("a new stream sends its start position, so that a client can resume before its first event", async () => {
  await using api = await setupListening()
  await api.deploy("etl", { a: "echo hi" })
  await api.runToEnd("etl")
  // On Postgres a run may have ended a moment before its events are in the feed.
  const earlier = await openStream(`${api.url}/events`, { "last-event-id": "0.0" })
  await earlier.until(/"task":null[^\n]*"status":"success"/)
  earlier.close()
  const first = await openStream(`${api.url}/events`)
  const [, begin] = /\nid: (\d+\.\d+)\n\n/.exec(await first.until(/\nid: \d+\.\d+\n\n/))!
  first.close()
  const id = await api.runToEnd("etl")
  const second = await openStream(`${api.url}/events`, { "last-event-id": begin! })
  const events = eventsOf(await second.until(/"task":null[^\n]*"status":"success"/))
  expect(new Set(events.map((event) => event.data.run_id))).toEqual(new Set([id]))
  expect(events[0]).toMatchObject({ event: "run" })
  second.close()
})

test("an idle stream sends heartbeats", async () => {
  await using api = await setupListening({ config: { heartbeatMs: 1 } })
  const stream = await openStream(`${api.url}/events`)
  await stream.until(": ping\n\n: ping")
  stream.close()
})

test("a reader that accepts no data is disconnected, and others are not", async () => {
  await using api = await setupListening({ config: { streamBuffer: 2000 } })
  await api.deploy("etl", Object.fromEntries(Array.from({ length: 60 }, (_, i) => [`t${i}`, "echo hi"])))
  const slow = await openStream(`${api.url}/events`)
  slow.response.pause()
  slow.response.socket.pause()
  const ended = slow.ended()
  const good = await openStream(`${api.url}/workers`)
  for (let i = 0; i < 200 && !slow.response.destroyed; i++) {
    await api.runToEnd("etl")
    const { body } = await api.call("GET", "/stats")
    if (body["streams"] === 0) break
  }
  expect((await api.call("GET", "/stats")).body["streams"]).toBe(0)
  slow.close()
  await ended
  good.close()
}, 60_000)

test("closing the server ends its streams", async () => {
  const api = await setupListening()
  const stream = await openStream(`${api.url}/events`)
  await stream.until(": ork")
  const ended = stream.ended()
  await api[Symbol.asyncDispose]()
  await ended
})

test("a raw log is read from an offset or from its end", async () => {
  await using api = await setupListening()
  await api.deploy("etl", { a: "echo one;echo two" })
  const id = await api.runToEnd("etl")
  const whole = await api.call("GET", `/runs/${id}/tasks/a/logs`)
  expect(whole.text).toBe("one\ntwo\n")
  expect(whole.headers["x-ork-next-offset"]).toBe("8")
  expect(whole.headers["content-type"]).toBe("text/plain; charset=utf-8")
  expect((await api.call("GET", `/runs/${id}/tasks/a/logs?offset=4`)).text).toBe("two\n")
  expect((await api.call("GET", `/runs/${id}/tasks/a/logs?offset=-4`)).text).toBe("two\n")
  const beyond = await api.call("GET", `/runs/${id}/tasks/a/logs?offset=100`)
  expect([beyond.text, beyond.headers["x-ork-next-offset"]]).toEqual(["", "8"])
})

test("a range of a log is read by offset and length, and so are its times", async () => {
  await using api = await setupListening()
  await api.deploy("etl", { a: "echo one;echo two;echo three" })
  const logs = `/runs/${await api.runToEnd("etl")}/tasks/a/logs`
  const part = await api.call("GET", `${logs}?offset=4&length=4`)
  expect(part.text).toBe("two\n")
  expect([part.headers["x-ork-next-offset"], part.headers["x-ork-size"]]).toEqual(["8", "14"])
  const last = await api.call("GET", `${logs}?offset=-6&length=100`)
  expect([last.text, last.headers["x-ork-next-offset"]]).toEqual(["three\n", "14"])
  const { body } = await api.call("GET", `${logs}/times?offset=4&length=4`)
  expect(body).toMatchObject({ size: 14, offset: 4, next_offset: 8 })
  const times = body["times"] as { offset: number; at: string; stream: string }[]
  expect(times.length).toBeGreaterThan(0)
  expect(times[0]!.offset).toBeLessThanOrEqual(4)
  expect(times.every(({ offset, stream }) => offset < 8 && stream === "stdout")).toBe(true)
  expect(Date.parse(times[0]!.at)).toBeGreaterThan(0)
  expect((await api.call("GET", `${logs}/times?offset=14`)).body).toMatchObject({ size: 14, times: [] })
  expect((await api.call("GET", `${logs}?length=4&follow=true`)).status).toBe(400)
  expect((await api.call("GET", `${logs}?length=4`, { headers: { accept: "application/x-ndjson" } })).status).toBe(400)
})

test("Accept selects JSON lines or events as the format of a log", async () => {
  await using api = await setupListening()
  await api.deploy("etl", { a: "echo one;echo two" })
  const id = await api.runToEnd("etl")
  const lines = await api.call("GET", `/runs/${id}/tasks/a/logs`, { headers: { accept: "application/x-ndjson" } })
  const parsed = lines.text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { at: string; stream: string; line: string })
  expect(parsed).toMatchObject([
    { stream: "stdout", line: "one" },
    { stream: "stdout", line: "two" },
  ])
  expect(parsed[0]!.at).toMatch(/^\d{4}-.*Z$/)
  const sse = await api.call("GET", `/runs/${id}/tasks/a/logs`, { headers: { accept: "text/event-stream" } })
  expect(sse.text).toContain('event: log\ndata: {"at":')
})

test("a followed log ends when the task finishes", async () => {
  await using api = await setupListening()
  await api.deploy("slow", { a: "echo before;block;echo after" })
  const id = (await api.call("POST", "/workflows/slow/runs")).body["id"] as string
  const stream = await openStream(`${api.url}/runs/${id}/tasks/a/logs?follow=true`)
  await stream.until("before\n")
  await api.executor.blocked("a")
  const ended = stream.ended()
  api.executor.release("a")
  expect(await ended).toBe("before\nafter\n")
})

test("a followed log waits for a task that has not started and continues with each attempt", async () => {
  await using api = await setupListening()
  const retry = { max_attempts: 2, backoff: "fixed", base_delay: 0.01 }
  await api.deploy("late", { a: "block", b: { command: "echo try;fail", depends_on: ["a"], retry } })
  const id = (await api.call("POST", "/workflows/late/runs")).body["id"] as string
  await api.executor.blocked("a")
  const stream = await openStream(`${api.url}/runs/${id}/tasks/b/logs?follow=true`, { accept: "text/event-stream" })
  api.executor.release("a")
  const text = await stream.ended()
  expect(text.match(/"line":"try"/g)).toHaveLength(2)
  expect(text).toMatch(/event: end\ndata: {}\n\n$/)
})

test("a followed log is closed when its reader disconnects", async () => {
  await using api = await setupListening()
  await api.deploy("slow", { a: "echo before;block" })
  const id = (await api.call("POST", "/workflows/slow/runs")).body["id"] as string
  const stream = await openStream(`${api.url}/runs/${id}/tasks/a/logs?follow=true`)
  await stream.until("before")
  expect((await api.call("GET", "/stats")).body["streams"]).toBe(1)
  stream.close()
  await stream.ended()
  await expect.poll(async () => (await api.call("GET", "/stats")).body["streams"]).toBe(0)
})

test("the log of a task that wrote nothing or has not run is empty", async () => {
  await using api = await setupListening()
  await api.deploy("etl", { a: "true", b: { command: "echo b", if: "false" } })
  const id = await api.runToEnd("etl")
  for (const name of ["a", "b"]) {
    const { status, text } = await api.call("GET", `/runs/${id}/tasks/${name}/logs`)
    expect([status, text]).toEqual([200, ""])
    expect((await api.call("GET", `/runs/${id}/tasks/${name}/logs?follow=true`)).text).toBe("")
  }
})

test("the events of a run include new log lines on request", async () => {
  await using api = await setupListening()
  await api.deploy("slow", { a: "echo before;block;echo after", b: { command: "echo b", depends_on: ["a"] } })
  const id = (await api.call("POST", "/workflows/slow/runs")).body["id"] as string
  await api.executor.blocked("a")
  await expect.poll(async () => (await api.call("GET", `/runs/${id}/tasks/a`)).body["status"]).toBe("running")
  const stream = await openStream(`${api.url}/runs/${id}/events?logs=true`)
  await stream.until(": ork")
  await expect.poll(async () => (await api.call("GET", "/stats")).body["streams"]).toBe(1)
  api.executor.release("a")
  const text = await stream.until(/"task":"b"[^\n]*"line":"b"/)
  expect(text).toMatch(/event: log\ndata: {"run_id":"[^"]*","task":"a","index":null,"path":"","attempt":1,[^\n]*"line":"after"/)
  expect(text).not.toContain('"line":"before"')
  stream.close()
})
