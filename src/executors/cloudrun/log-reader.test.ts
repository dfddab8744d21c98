import { expect, test } from "vitest"
import { ManualClock } from "../conformance/manual-clock.ts"
import { GoogleApiError } from "./api-error.ts"
import { filterOf, lineOf, type LogEntry } from "./log-entries.ts"
import { BATCH, type LogFollow, LogReader, OVERLAP_MS, PACE_MS } from "./log-reader.ts"
import { ResponseTooLarge } from "./google-api.ts"
import type { LogPage, LogRequest } from "./logging-api.ts"

import { FakeLogging } from "./testing/fake-logging.ts"

const LOCATION = { project: "acme", region: "europe-west1" }
const nameOf = (execution: string): string => `projects/acme/locations/europe-west1/jobs/j/executions/${execution}`

const setup = () => {
  const clock = new ManualClock()
  const logs = new FakeLogging(() => clock.now())
  const requests: (LogRequest & { at: number })[] = []
  /** Errors of the next requests. */
  const faults: Error[] = []
  const list = async (request: LogRequest): Promise<LogPage> => {
    requests.push({ ...request, at: clock.now() })
    const fault = faults.shift()
    if (fault !== undefined) throw fault
    const { filter, pageSize, pageToken } = request
    const response = logs.list({
      resourceNames: [`projects/${request.project}`],
      filter,
      orderBy: "timestamp asc",
      pageSize,
      ...(pageToken !== "" && { pageToken }),
    }) as { entries?: LogEntry[]; nextPageToken?: string }
    return { entries: response.entries ?? [], next: response.nextPageToken ?? "", at: clock.now() }
  }
  const reader = new LogReader({ list, close: () => {} }, clock)
  const follow = (execution: string): { lines: string[]; follow: LogFollow } => {
    const lines: string[] = []
    const onLines = async (all: { text: string }[]): Promise<void> => void lines.push(...all.map(({ text }) => text))
    return { lines, follow: reader.follow({ ...LOCATION, execution, since: clock.now(), onLines, onRead: () => {} }) }
  }
  const write = (execution: string, line: string): void => logs.write(nameOf(execution), "stdout", line)
  return { clock, logs, requests, faults, reader, follow, write }
}

const LONGEST = "j".repeat(63)

test("a thousand executions stay within Google's quota, and each is read about every 15 s", async () => {
  const { clock, requests, follow, write } = setup()
  const all = Array.from({ length: 1000 }, (_, i) => ({ id: `${LONGEST}-${i}`, ...follow(`${LONGEST}-${i}`) }))
  for (const { id } of all) write(id, `of ${id}`)
  await clock.pass(40_000)
  expect(all.every(({ id, lines }) => lines.length === 1 && lines[0] === `of ${id}`)).toBe(true)
  await clock.pass(80_000)
  expect(requests.length).toBeGreaterThan(70)
  for (const [i, { at }] of requests.entries()) expect(at - (requests[i - 1]?.at ?? 0)).toBeGreaterThanOrEqual(PACE_MS)
  const oldest = Math.min(...all.map(({ follow: { readAt } }) => readAt ?? 0))
  expect(clock.now() - oldest).toBeLessThan(20_000)
})

test("the filter of a full batch with the longest names stays within Google's limit", () => {
  const requests = Array.from({ length: BATCH }, (_, i) => ({ execution: `${LONGEST}-abcde`, receivedSince: i }))
  expect(filterOf(requests, 0).length).toBeLessThan(20_000)
})

test("no line is repeated or lost when entries are late, in pages, or after failures", async () => {
  const { clock, logs, faults, follow, write } = setup()
  const { lines } = follow("e1")
  logs.page = 2
  logs.emptyPages = 1
  write("e1", "1")
  logs.hold = (line) => line === "2"
  for (const line of ["2", "3", "4", "5"]) write("e1", line)
  await clock.pass(3000)
  faults.push(new GoogleApiError(429, "slow"), new GoogleApiError(500, "broken"), new GoogleApiError(null, "gone"))
  await clock.pass(60_000)
  expect(lines).toEqual(["1", "3", "4", "5"])
  logs.release()
  write("e1", "6")
  await clock.pass(60_000)
  expect(lines).toEqual(["1", "3", "4", "5", "2", "6"])
})

test("a rate-limited service is read less and less often", async () => {
  const { clock, requests, faults, follow } = setup()
  follow("e1")
  faults.push(...Array.from({ length: 100 }, () => new GoogleApiError(429, "slow")))
  await clock.pass(600_000)
  expect(requests.length).toBeLessThan(25)
})

test("reads request only new entries, with some overlap", async () => {
  const { clock, requests, follow, write } = setup()
  const { lines } = follow("e1")
  write("e1", "old")
  await clock.pass(600_000)
  const [, received = ""] = /receiveTimestamp>="([^"]+)"/.exec(requests.at(-1)?.filter ?? "") ?? []
  const back = (requests.at(-1)?.at ?? 0) - Date.parse(received)
  expect(back).toBeGreaterThanOrEqual(OVERLAP_MS)
  expect(back).toBeLessThan(OVERLAP_MS + 10_000)
  expect(lines).toEqual(["old"])
})

test("an execution that writes much does not delay the others", async () => {
  const { clock, logs, follow, write } = setup()
  logs.page = 100
  const much = follow("much")
  for (let i = 0; i < 1200; i++) write("much", `line ${i}`)
  await clock.pass(30_000)
  expect(much.lines).toHaveLength(1200)
  for (let i = 0; i < 2000; i++) write("much", `more ${i}`)
  const other = follow("other")
  write("other", "hello")
  await clock.pass(10_000)
  expect(other.lines).toEqual(["hello"])
  expect(much.lines.length).toBeLessThan(3200)
  await clock.pass(90_000)
  expect(much.lines).toHaveLength(3200)
  expect(new Set(much.lines).size).toBe(3200)
})

test("a log that is longer than one read is continued by the next read", async () => {
  const { clock, logs, requests, follow } = setup()
  const { lines } = follow("e1")
  logs.page = 10
  const begin = clock.now() - 200_000
  for (let i = 0; i < 800; i++) logs.write(nameOf("e1"), "stdout", `line ${i}`, begin + i * 100)
  await clock.pass(200_000)
  expect(lines).toEqual(Array.from({ length: 800 }, (_, i) => `line ${i}`))
  const cursors = requests
    .filter(({ pageToken }) => pageToken === "")
    .map(({ filter }) => /receiveTimestamp>="([^"]+)"/.exec(filter)?.[1])
  // 50 pages of 10 lines, the last one at 499.
  expect(Date.parse(cursors[1] ?? "") - begin).toBe(49_900)
  expect(requests.length).toBeLessThan(800 / 10 + 40)
})

test("a page that is too large is requested again with a smaller page size", async () => {
  const { clock, requests, faults, follow, write } = setup()
  const { lines } = follow("e1")
  write("e1", "1")
  faults.push(new ResponseTooLarge(), new ResponseTooLarge())
  await clock.pass(10_000)
  expect(requests.slice(0, 3).map(({ pageSize, pageToken }) => [pageSize, pageToken])).toEqual([
    [1000, ""],
    [250, ""],
    [62, ""],
  ])
  expect(lines).toEqual(["1"])
})

test("a rejected read is reported, and retried a minute later", async () => {
  const { clock, requests, faults, follow, write } = setup()
  const { lines, follow: followed } = follow("e1")
  write("e1", "1")
  faults.push(new GoogleApiError(403, "no"))
  await clock.pass(30_000)
  expect(followed.problem?.status).toBe(403)
  expect(requests).toHaveLength(1)
  await clock.pass(60_000)
  expect(followed.problem).toBeNull()
  expect(lines).toEqual(["1"])
})

test("nothing is read without followers, or after the stop", async () => {
  const { clock, requests, reader, follow } = setup()
  follow("e1").follow.close()
  await clock.pass(60_000)
  expect(requests).toEqual([])
  follow("e2")
  await clock.pass(20_000)
  expect(requests.length).toBeGreaterThan(0)
  reader.stop()
  const before = requests.length
  await clock.pass(60_000)
  expect(requests).toHaveLength(before)
})

test("lines sort by time, even if trailing zeros are missing", () => {
  const orders = ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.12Z", "2026-01-01T00:00:00.120000001Z"]
  const sorted = orders.map((timestamp) => lineOf({ timestamp, insertId: "a" }).order)
  expect(sorted.toSorted()).toEqual(sorted)
})
