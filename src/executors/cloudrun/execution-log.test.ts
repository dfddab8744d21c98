// Logs of containers that do not run `ork exec`, read from a fake of Cloud Logging.

import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { expect, test, vi } from "vitest"
import { MemoryObjectStore } from "../../objects/testing/memory.ts"
import { allLines, assignment, type Launched, realClock } from "../conformance/fixture.ts"
import { ExecutionLog, VISIBLE_MS } from "./execution-log.ts"
import { lineOf } from "./log-entries.ts"
import type { LogTarget } from "./log-reader.ts"
import { LIST_LOGS } from "./testing/fake-cloud-run.ts"
import { setup } from "./testing/fixture.ts"

const text = (part: string): string => expect.stringContaining(part) as string
const linesOf = async ({ log }: Launched): Promise<string[]> => (await allLines(log)).map(({ line }) => line)
/** A shell loop that ends when the file `go` exists. */
const UNTIL_GO = 'while [ ! -e "$DIR/go" ]; do sleep 0.02; done'
const SLOW = { timeout: 20_000 }

test("lines arrive while the execution runs, with time and stream, and a last line of JSON is the output", async () => {
  const { run, folder } = await setup()
  const running = run(`echo one; echo two >&2; ${UNTIL_GO}; echo '{"n": 42, "list": [1]}'`, { env: { DIR: folder } })
  const { at: startedAt } = await running.started
  const one = await running.line("one")
  expect(one.stream).toBe("stdout")
  await writeFile(join(folder, "go"), "")
  const end = await running.result
  expect(end).toMatchObject({ state: "success", output: { inline: { n: 42, list: [1] } } })
  const lines = await allLines(running.log)
  expect(lines.map(({ stream, line }) => `${stream} ${line}`).toSorted()).toEqual([
    "stderr two",
    "stdout one",
    'stdout {"n":42,"list":[1]}',
  ])
  // Times are those of Google's clock, not of the read.
  expect(Math.abs(one.at - startedAt)).toBeLessThan(end.finishedAt - startedAt)
  for (const { at } of lines) expect(at).toBeLessThanOrEqual(end.finishedAt)
})

test("the output is the last line of stdout that is not blank, if it is a JSON object or array", async () => {
  const { run } = await setup()
  const scripts: [string, unknown][] = [
    ["echo '[1, 2]'", [1, 2]],
    ["echo '[1]'; echo done", null],
    ["echo '[1]'; echo; echo '  '", [1]],
    ["echo '[1]' >&2", null],
    ["true", null],
    ["echo '{\"n\": '", null],
  ]
  const results = await Promise.all(scripts.map(([script]) => run(script).result))
  expect(results.map(({ state, output }) => [state, output])).toEqual(scripts.map(([, inline]) => ["success", { inline }]))
})

test("a large output is stored as an object, and one above the limit fails the attempt", async () => {
  const { run } = await setup()
  const script = 'printf "[\\"%0100000d\\"]\\n" 1'
  expect(await run(script).result).toMatchObject({ state: "success", output: { key: text("output.json"), bytes: 100_004 } })
  const end = await run(script, { maxOutputBytes: 1000 }).result
  expect(end).toMatchObject({ state: "failed", error: text("its last line of 97.7 KiB is larger than the limit") })
})

test("lines that become visible late are awaited for a limited time after the end", async () => {
  const { fake, run } = await setup()
  fake.logs.lateMs = VISIBLE_MS - 1000
  expect(await run("echo '[1]'").result).toMatchObject({ state: "success", output: { inline: [1] } })
  fake.logs.lateMs = 100 * VISIBLE_MS
  const running = run("echo '[1]'")
  expect(await running.result).toMatchObject({ state: "success", output: { inline: null } })
  expect(await linesOf(running)).toEqual([])
})

test("a line that becomes visible after a newer one is stored, but is not the last line", async () => {
  const { fake, run, folder } = await setup()
  fake.logs.hold = (line) => line === "early"
  const running = run(`echo early; echo '[1]'; ${UNTIL_GO}`, { env: { DIR: folder } })
  await running.line("[1]")
  fake.logs.release()
  await running.line("early")
  await writeFile(join(folder, "go"), "")
  expect(await running.result).toMatchObject({ state: "success", output: { inline: [1] } })
  expect(await linesOf(running)).toEqual(["[1]", "early"])
})

test("pages, failures and broken connections neither lose nor repeat a line", async () => {
  const { fake, run } = await setup()
  fake.logs.page = 3
  fake.logs.emptyPages = 2
  for (const status of [429, 500, 503, 0]) fake.fault({ method: LIST_LOGS, status })
  const running = run("for i in 1 2 3 4 5 6 7 8 9 10; do echo line $i; done; echo '[10]'")
  expect(await running.result).toMatchObject({ state: "success", output: { inline: [10] } })
  expect(await linesOf(running)).toEqual([...Array.from({ length: 10 }, (_, i) => `line ${i + 1}`), "[10]"])
})

test("a log that may not be read does not fail the attempt: a note names the missing role and the log's address", async () => {
  const { fake, run } = await setup()
  fake.fault({ method: LIST_LOGS, status: 403, times: 1000 })
  const running = run("echo '[1]'")
  expect(await running.result).toMatchObject({ state: "success", output: { inline: null } })
  expect(await linesOf(running)).toEqual([
    text(
      "ork: its log cannot be read, and its output is not known: Google does not allow it (403: injected by the test): give the",
    ),
  ])
  const [line = ""] = await linesOf(running)
  expect(line).toContain("roles/logging.viewer on the project acme")
  expect(line).toContain("https://console.cloud.google.com/logs/viewer?project=acme&execution=sh-00001")
})

test("rights that are granted while the execution runs take effect", async () => {
  const { fake, run, folder } = await setup()
  fake.fault({ method: LIST_LOGS, status: 403 })
  const running = run(`echo one; ${UNTIL_GO}; echo '[1]'`, { env: { DIR: folder } })
  await running.line("roles/logging.viewer")
  await running.line("one")
  await writeFile(join(folder, "go"), "")
  expect(await running.result).toMatchObject({ state: "success", output: { inline: [1] } })
})

test("a service that stays unavailable after the end is given up, and a note says so", async () => {
  const { fake, run } = await setup()
  fake.fault({ method: LIST_LOGS, status: 503, times: 1000 })
  const running = run("echo '[1]'; exit 3")
  expect(await running.result).toMatchObject({ state: "failed", exitCode: 3, error: "exit code 3" })
  expect(await linesOf(running)).toEqual([
    text("ork: its log was not read to its end, and its output is not known: injected by"),
  ])
})

test("secrets are masked in the log", async () => {
  const { fake, run } = await setup()
  fake.addJob("keeper", ["/bin/sh", "-c"], { env: [{ name: "TOKEN", value: "hunter2" }] })
  const running = run('echo "my $TOKEN"', { fields: { job: "keeper" }, secrets: ["hunter2"] })
  expect((await running.result).state).toBe("success")
  expect(await linesOf(running)).toEqual(["my ***"])
})

test("only lines of the container that the task names are stored", async () => {
  const { fake, run } = await setup()
  fake.addJob("many", ["/bin/sh", "-c"], { name: "main" })
  fake.logs.container = (line) => (line.startsWith("side") ? "sidecar" : "main")
  const more = { fields: { job: "many" }, cloudrun: { container: "main" } }
  const running = run("echo '[1]'; echo side", more)
  expect(await running.result).toMatchObject({ state: "success", output: { inline: [1] } })
  expect(await linesOf(running)).toEqual(["[1]"])
})

test("the next server writes the log again from the start, and each line is there once", async () => {
  const { fake, run, folder, newExecutor } = await setup()
  const script = `echo one; ${UNTIL_GO}; echo '[2]'`
  const more = { attemptId: "a1", env: { DIR: folder } }
  const first = run(script, more)
  await first.line("one")
  first.stop("shutdown")
  expect(await first.result).toMatchObject({ state: "lost" })
  const again = run(script, more, newExecutor())
  await again.started
  await writeFile(join(folder, "go"), "")
  expect(await again.result).toMatchObject({ state: "success", output: { inline: [2] } })
  expect(await linesOf(again)).toEqual(["one", "[2]"])
  expect(fake.executions).toHaveLength(1)
  // A third server still finds it.
  expect(await run(script, more, newExecutor()).result).toMatchObject({ state: "success", output: { inline: [2] } })
  expect(fake.count("Jobs.RunJob")).toBe(1)
})

test("a cancelled attempt does not wait for late lines", async () => {
  const { fake, run } = await setup()
  const running = run("echo one; sleep 60")
  await running.line("one")
  fake.logs.lateMs = 100 * VISIBLE_MS
  running.stop("cancel")
  expect(await running.result).toMatchObject({ state: "cancelled" })
  expect(await linesOf(running)).toEqual(["one"])
})

test("a timeout while the last lines are awaited does not change the outcome", async () => {
  const { fake, run } = await setup()
  fake.logs.lateMs = VISIBLE_MS - 1000
  const running = run("echo last; exit 3")
  // The task is read once the end was seen.
  await vi.waitUntil(() => fake.count("Tasks.ListTasks") === 1, SLOW)
  running.stop("timeout")
  expect(await running.result).toMatchObject({ state: "failed", exitCode: 3 })
  expect(await linesOf(running)).toEqual(["last"])
  expect(fake.count("Executions.CancelExecution")).toBe(0)
})

test("a server that is stopped while it waits for the last lines leaves them to the next server", async () => {
  const { fake, run, newExecutor } = await setup()
  fake.fault({ method: LIST_LOGS, status: 503, times: 1000 })
  const first = run("echo '[1]'", { attemptId: "a1" })
  await vi.waitUntil(() => fake.count(LIST_LOGS) > 1, SLOW)
  first.stop("shutdown")
  expect(await first.result).toMatchObject({ state: "lost" })
  fake.clearFaults()
  const again = run("echo '[1]'", { attemptId: "a1" }, newExecutor())
  expect(await again.result).toMatchObject({ state: "success", output: { inline: [1] } })
  expect(await linesOf(again)).toEqual(["[1]"])
})

test("lines that arrive after the log was closed are ignored", async () => {
  const objects = new MemoryObjectStore()
  let followed: LogTarget | null = null
  const follow = (target: LogTarget) => {
    followed = target
    return { readAt: null, receivedAt: null, problem: null, now: () => 0, readWithin: () => {}, close: () => {} }
  }
  const work = assignment("/", null)
  await objects.put(`${work.prefix}log`, "log of the next server")
  const source = { name: "", since: 0, found: true, container: null, link: "" }
  const signal = new AbortController().signal
  const log = new ExecutionLog({ reader: { follow }, objects, clock: realClock }, work, signal, source)
  await log.close()
  await (followed as LogTarget | null)?.onLines([lineOf({ textPayload: "late", timestamp: "2026-01-01T00:00:00Z" })])
  expect(Buffer.from((await objects.get(`${work.prefix}log`)) ?? "").toString()).toBe("log of the next server")
})
