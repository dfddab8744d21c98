// What any image says, read back from a stand-in for Cloud Logging.

import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { expect, test, vi } from "vitest"
import { MemoryObjectStore } from "../../objects/testing/memory.ts"
import { allLines, assignment, type Launched, realClock } from "../conformance/fixture.ts"
import { ExecutionLog, LATE_MS } from "./execution-log.ts"
import { lineOf } from "./log-entries.ts"
import type { Followed } from "./project-reader.ts"
import { LIST_LOGS } from "./testing/fake-cloud-run.ts"
import { setup } from "./testing/fixture.ts"

const text = (part: string): string => expect.stringContaining(part) as string
const linesOf = async ({ log }: Launched): Promise<string[]> => (await allLines(log)).map(({ line }) => line)
/** Goes on when the file is there. */
const UNTIL_GO = 'while [ ! -e "$DIR/go" ]; do sleep 0.02; done'
const SLOW = { timeout: 20_000 }

test("lines come while it runs, with their time and stream, and the last one is the output when it is JSON", async () => {
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
  // Those of Google's clock, not when they were read.
  expect(Math.abs(one.at - startedAt)).toBeLessThan(end.finishedAt - startedAt)
  for (const { at } of lines) expect(at).toBeLessThanOrEqual(end.finishedAt)
})

test("the output is what it is everywhere: the last line of stdout that is not blank, when it is an object or a list", async () => {
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

test("a large output goes to the object store, and one that is too large fails the attempt", async () => {
  const { run } = await setup()
  const script = 'printf "[\\"%0100000d\\"]\\n" 1'
  expect(await run(script).result).toMatchObject({ state: "success", output: { key: text("output.json"), bytes: 100_004 } })
  const end = await run(script, { maxOutputBytes: 1000 }).result
  expect(end).toMatchObject({ state: "failed", error: text("its last line of 97.7 KiB is larger than the limit") })
})

test("lines that are found late are waited for after the end, and no longer", async () => {
  const { fake, run } = await setup()
  fake.logs.lateMs = LATE_MS - 1000
  expect(await run("echo '[1]'").result).toMatchObject({ state: "success", output: { inline: [1] } })
  fake.logs.lateMs = 100 * LATE_MS
  const running = run("echo '[1]'")
  expect(await running.result).toMatchObject({ state: "success", output: { inline: null } })
  expect(await linesOf(running)).toEqual([])
})

test("a line that is found after a later one is in the log, but is not the last", async () => {
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

test("pages, failures and broken connections neither lose nor double a line", async () => {
  const { fake, run } = await setup()
  fake.logs.page = 3
  fake.logs.emptyPages = 2
  for (const status of [429, 500, 503, 0]) fake.fault({ method: LIST_LOGS, status })
  const running = run("for i in 1 2 3 4 5 6 7 8 9 10; do echo line $i; done; echo '[10]'")
  expect(await running.result).toMatchObject({ state: "success", output: { inline: [10] } })
  expect(await linesOf(running)).toEqual([...Array.from({ length: 10 }, (_, i) => `line ${i + 1}`), "[10]"])
})

test("a log that may not be read fails nothing: it says which role is missing, and where it is", async () => {
  const { fake, run } = await setup()
  fake.fault({ method: LIST_LOGS, status: 403, times: 1000 })
  const running = run("echo '[1]'")
  expect(await running.result).toMatchObject({ state: "success", output: { inline: null } })
  expect(await linesOf(running)).toEqual([
    text(
      "ork: its log cannot be read, and its output is not known: Google does not allow it (403: asked for by the test): give the",
    ),
  ])
  const [line = ""] = await linesOf(running)
  expect(line).toContain("roles/logging.viewer on the project acme")
  expect(line).toContain("https://console.cloud.google.com/logs/viewer?project=acme&execution=sh-00001")
})

test("rights that come while it runs are enough", async () => {
  const { fake, run, folder } = await setup()
  fake.fault({ method: LIST_LOGS, status: 403 })
  const running = run(`echo one; ${UNTIL_GO}; echo '[1]'`, { env: { DIR: folder } })
  await running.line("roles/logging.viewer")
  await running.line("one")
  await writeFile(join(folder, "go"), "")
  expect(await running.result).toMatchObject({ state: "success", output: { inline: [1] } })
})

test("a service that stays away after the end is given up, and the log says so", async () => {
  const { fake, run } = await setup()
  fake.fault({ method: LIST_LOGS, status: 503, times: 1000 })
  const running = run("echo '[1]'; exit 3")
  expect(await running.result).toMatchObject({ state: "failed", exitCode: 3, error: "exit code 3" })
  expect(await linesOf(running)).toEqual([
    text("ork: its log was not read to its end, and its output is not known: asked for by"),
  ])
})

test("secrets are masked in the log and in what becomes of it", async () => {
  const { fake, run } = await setup()
  fake.addJob("keeper", ["/bin/sh", "-c"], { env: [{ name: "TOKEN", value: "hunter2" }] })
  const running = run('echo "my $TOKEN"', { fields: { job: "keeper" }, secrets: ["hunter2"] })
  expect((await running.result).state).toBe("success")
  expect(await linesOf(running)).toEqual(["my ***"])
})

test("of a job with several containers only the one that the task names is heard", async () => {
  const { fake, run } = await setup()
  fake.addJob("many", ["/bin/sh", "-c"], { name: "main" })
  fake.logs.container = (line) => (line.startsWith("side") ? "sidecar" : "main")
  const more = { fields: { job: "many" }, cloudrun: { container: "main" } }
  const running = run("echo '[1]'; echo side", more)
  expect(await running.result).toMatchObject({ state: "success", output: { inline: [1] } })
  expect(await linesOf(running)).toEqual(["[1]"])
})

test("the next server writes the log anew: each line is there once", async () => {
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
  // Another one would still find it.
  expect(await run(script, more, newExecutor()).result).toMatchObject({ state: "success", output: { inline: [2] } })
  expect(fake.count("Jobs.RunJob")).toBe(1)
})

test("a cancel does not wait for lines that are late", async () => {
  const { fake, run } = await setup()
  const running = run("echo one; sleep 60")
  await running.line("one")
  fake.logs.lateMs = 100 * LATE_MS
  running.stop("cancel")
  expect(await running.result).toMatchObject({ state: "cancelled" })
  expect(await linesOf(running)).toEqual(["one"])
})

test("a timeout that comes while its last lines are waited for does not change how it ended", async () => {
  const { fake, run } = await setup()
  fake.logs.lateMs = LATE_MS - 1000
  const running = run("echo last; exit 3")
  // Asked for once the end was seen.
  await vi.waitUntil(() => fake.count("Tasks.ListTasks") === 1, SLOW)
  running.stop("timeout")
  expect(await running.result).toMatchObject({ state: "failed", exitCode: 3 })
  expect(await linesOf(running)).toEqual(["last"])
  expect(fake.count("Executions.CancelExecution")).toBe(0)
})

test("a server that is stopped while it waits for last lines leaves them to the next", async () => {
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

test("lines that are still on their way when it is closed change nothing any more", async () => {
  const objects = new MemoryObjectStore()
  let followed: Followed | null = null
  const follow = (wanted: Followed) => {
    followed = wanted
    return { readAt: null, receivedAt: null, problem: null, now: () => 0, within: () => {}, close: () => {} }
  }
  const work = assignment("/", null)
  await objects.put(`${work.prefix}log`, "of the server that goes on with it")
  const source = { name: "", since: 0, found: true, container: null, link: "" }
  const signal = new AbortController().signal
  const log = new ExecutionLog({ reader: { follow }, objects, clock: realClock }, work, signal, source)
  await log.close()
  await (followed as Followed | null)?.take([lineOf({ textPayload: "late", timestamp: "2026-01-01T00:00:00Z" })])
  expect(Buffer.from((await objects.get(`${work.prefix}log`)) ?? "").toString()).toBe("of the server that goes on with it")
})
