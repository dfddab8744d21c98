// Tests of what a function sees, writes and returns, for every language. Each language provides the same functions.

import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest"
import type { Progress } from "../executor.ts"
import { type FunctionFixture, type Language, launcherFor } from "./function-fixture.ts"
import { allLines, assignment, launch } from "./fixture.ts"

/** Timeout for a change of code, which the executor checks every 50 ms. */
const TIMEOUT = { timeout: 20_000 }

export const functionTests = (language: Language, make: () => Promise<FunctionFixture>): void => {
  const file = `functions.${language.extension}`
  let fixture: FunctionFixture
  const { go, run, put } = launcherFor(language, () => fixture)

  describe(`functions in ${language.name}`, () => {
    beforeAll(async () => {
      fixture = await make()
      put(file, language.functions)
    })
    afterAll(() => fixture.cleanup())

    test("the return value is the output, sync or async, and no return value is null", async () => {
      expect(await run("echo")).toMatchObject({ state: "success", output: { inline: { greeting: "hello" } } })
      expect(await run("later", { input: [1, "ü"] })).toMatchObject({ state: "success", output: { inline: [1, "ü"] } })
      expect(await run("nothing")).toMatchObject({ state: "success", output: { inline: null } })
    })

    test("a worker runs many tasks, one after the other", async () => {
      const pids = [await run("nothing"), await run("nothing"), await run("nothing")].map((end) => end.externalId)
      expect(new Set(pids).size).toBe(1)
      expect(Number(pids[0])).toBeGreaterThan(1)
      expect(fixture.workers()).toContain(Number(pids[0]))
    })

    test("long tasks run concurrently in several workers", async () => {
      const running = [go("meet", { input: 3 }), go("meet", { input: 3 }), go("meet", { input: 3 })]
      const ends = await Promise.all(running.map(({ result }) => result))
      expect(ends.map((end) => end.state)).toEqual(["success", "success", "success"])
      expect(new Set(ends.map((end) => end.externalId)).size).toBe(3)
    })

    test("the context describes the task", async () => {
      const task = { attempt: 3, parallelIndex: 1, parallelCount: 4, logicalDate: "2026-01-02T00:00:00.000Z" }
      const { output } = await run("context", task)
      expect(output).toEqual({
        inline: ["run-1", "task-1", "task", "conformance", 3, 1, 4, "2026-01-02T00:00:00.000Z"],
      })
    })

    test("a function has the variables of its task, and not those of an earlier one", async () => {
      process.env["ORK_TEST_SERVER_SECRET"] = "hidden"
      const first = await run("environment", { env: { COLOUR: "red" } })
      delete process.env["ORK_TEST_SERVER_SECRET"]
      const variables = (first.output as { inline: { [name: string]: string } }).inline
      expect(variables).toMatchObject({ COLOUR: "red", ORK_TASK_NAME: "task", ORK_ATTEMPT: "1", PATH: process.env["PATH"] })
      expect(variables).not.toHaveProperty("ORK_TEST_SERVER_SECRET")
      const second = await run("environment")
      expect(second.externalId).toBe(first.externalId)
      expect((second.output as { inline: object }).inline).not.toHaveProperty("COLOUR")
    })

    test("a function runs in the task's folder, even if its file is in another", async () => {
      const code = { folder: fixture.folder, bundle: null }
      expect(await run("folder", { workingDir: "/", code })).toMatchObject({ output: { inline: "/" } })
    })

    test("everything that a function and its child processes print is in the log, by stream", async () => {
      const { result, log } = go("talk")
      expect((await result).state).toBe("success")
      const lines = (await allLines(log)).map(({ stream, line }) => `${stream} ${line}`)
      expect(lines.filter((line) => line.startsWith("stdout"))).toEqual([
        "stdout printed",
        "stdout from a child",
        "stdout logged",
      ])
      expect(lines.filter((line) => line.startsWith("stderr"))).toEqual(["stderr complained", "stderr warning: careful"])
    })

    test("a log of a megabyte is complete", async () => {
      const { result, log } = go("flood")
      await result
      const lines = await allLines(log)
      expect(lines).toHaveLength(20_000)
      expect(lines.at(-1)!.line).toMatch(/^line 19999 x+$/)
    })

    test("a log that cannot be written fails the attempt", async () => {
      const work = assignment(fixture.folder, null, { node: { file, function: "talk" } })
      mkdirSync(fixture.objects.localPath!(`${work.prefix}log`), { recursive: true })
      expect(await launch(fixture, work).result).toMatchObject({
        state: "failed",
        error: "its log could not be stored: the log is incomplete: EISDIR",
      })
    })

    test("secrets are masked in log and error", async () => {
      const { result, log } = go("blab", { input: "hunter22", secrets: ["hunter22"] })
      expect((await result).error).toBe("I know ***")
      const text = (await allLines(log)).map(({ line }) => line).join("\n")
      expect(text).toContain("***")
      expect(text).not.toContain("hunter22")
    })

    test("an exception fails the attempt: its message is the error, its stack is in the log", async () => {
      const { result, log } = go("fail")
      const end = await result
      expect(end).toMatchObject({ state: "failed", error: "no such row" })
      expect(end.retryable).toBeUndefined()
      const lines = (await allLines(log)).filter(({ stream }) => stream === "stderr").map(({ line }) => line)
      expect(lines.join("\n")).toContain("no such row")
      expect(lines.join("\n")).toContain(file)
      expect((await run("nothing")).externalId).toBe(end.externalId)
    })

    test("an exception without a usable message fails the attempt with a text", async () => {
      for (const kind of ["number", "object", "nothing", "getter"]) {
        const end = await run("throw_odd", { input: kind })
        expect(end, kind).toMatchObject({ state: "failed", error: expect.stringMatching(/./) as string })
        expect(end.error, kind).not.toMatch(/worker process/)
        if (kind === "object" && language.extension === "ts") expect(end.error).toBe("{ code: 'E1' }")
      }
    })

    test("a terminal error is not retried, and another one may delay the retry", async () => {
      expect(await run("give_up")).toMatchObject({ state: "failed", error: "bad input", retryable: false })
      expect(await run("come_back")).toMatchObject({ state: "failed", retryAfterMs: 2500 })
    })

    test("a return value that is not JSON fails with the reason", async () => {
      const end = await run("not_json")
      expect(end).toMatchObject({ state: "failed" })
      expect(end.error).toMatch(/cannot be written as JSON|is not JSON/)
    })

    test("a large output becomes an object; one above the limit fails", async () => {
      const end = await run("large", { input: 200_000 })
      expect(end.output).toMatchObject({ bytes: 200_002 })
      const stored = await fixture.objects.get((end.output as { key: string }).key)
      expect(Buffer.from(stored!).toString()).toBe(JSON.stringify("x".repeat(200_000)))
      const over = await run("large", { input: 200_000, maxOutputBytes: 100_000 })
      expect(over.state).toBe("failed")
      expect(over.error).toMatch(/larger than the limit/)
    })

    test("files of upstream outputs are part of the input", async () => {
      const upstreamDir = join(fixture.folder, "upstream")
      mkdirSync(upstreamDir, { recursive: true })
      writeFileSync(join(upstreamDir, "load.json"), '{\r\n  "rows": [1,\n 2]\n}\n')
      expect((await run("echo", { input: { own: "a\nb" }, inputFiles: ["load"], upstreamDir })).output).toEqual({
        inline: { own: "a\nb", load: { rows: [1, 2] } },
      })
      writeFileSync(join(upstreamDir, "text.json"), JSON.stringify("ä".repeat(2_000_000)))
      expect((await run("measure", { input: {}, inputFiles: ["text"], upstreamDir })).output).toEqual({ inline: 2_000_000 })
    })

    test("an input that cannot be read fails the task", async () => {
      const end = await run("echo", { input: {}, inputFiles: ["missing"], upstreamDir: fixture.folder })
      expect(end).toMatchObject({ state: "failed", error: expect.stringContaining("missing.json") })
      expect(await run("echo")).toMatchObject({ state: "success" })
    })

    test("a large input arrives completely", async () => {
      const input = { text: "ä".repeat(500_000), end: true }
      expect((await run("measure", { input })).output).toEqual({ inline: 500_000 })
    })

    test("progress that is not JSON fails the call that reports it, and not the function", async () => {
      expect(await run("report_badly")).toMatchObject({ state: "success", output: { inline: "done" } })
    })

    test("progress and heartbeats are reported while a function runs, the last one always", async () => {
      const updates: Progress[] = []
      const work = assignment(fixture.folder, null, { node: { file, function: "advance" } })
      const context = {
        signal: new AbortController().signal,
        started: () => {},
        progress: (one: Progress) => updates.push(one),
      }
      expect((await fixture.executor.launch(work, context)).state).toBe("success")
      expect(updates[0]).toEqual({ fraction: 0.25 })
      expect(updates.at(-1)).toMatchObject({ fraction: 1, details: { rows: 3 } })
      expect(updates.length).toBeLessThan(50)
    })

    test("code that a task leaves running does not write to the log of the next task", async () => {
      const first = await run("leave_running", { input: "from the first" })
      const { result, log } = go("pause")
      expect((await result).externalId).not.toBe(first.externalId)
      expect(await allLines(log)).toEqual([])
    })

    test("a worker whose state a function has changed is not used again", async () => {
      const changes = ["umask", "priority", "output", "signals", ...(language.extension === "py" ? ["limits", "alarm"] : [])]
      for (const what of changes) {
        const first = await run("change", { input: what })
        expect(first.state, what).toBe("success")
        const next = await run("nothing")
        expect([next.state, next.externalId === first.externalId], what).toEqual(["success", false])
      }
    })

    test("secrets of earlier tasks of a worker are masked too", async () => {
      const first = await run("remember", { input: "hunter23", secrets: ["hunter23"] })
      const { result, log } = go("recall")
      expect((await result).externalId).toBe(first.externalId)
      expect((await allLines(log)).map(({ line }) => line)).toEqual(["recalled ***"])
    })

    test("tasks of two workflows never share a worker", async () => {
      const [one, two] = [await run("nothing", { workflow: "one" }), await run("nothing", { workflow: "two" })]
      expect(one.externalId).not.toBe(two.externalId)
    })

    test("an invalid message on the worker's pipe fails the attempt, and nothing else", async () => {
      const texts = ["nonsense\n", 'E 1 1 0 {"message":42}\n', "P x {}\n", 'P 1 {"fraction":"?"}\n', "F [[1]]\n", "O 1 ? 0 1\n"]
      for (const text of texts) {
        const end = await run("send", { input: text })
        expect(end, text).toMatchObject({ state: "failed", error: expect.stringMatching(/sent an invalid message/) as string })
        expect((await run("nothing")).state).toBe("success")
      }
    })

    test("a message of another task is ignored", async () => {
      expect(await run("send", { input: "O 0 1 0 42\n" })).toMatchObject({ state: "success", output: { inline: null } })
    })

    test("files in two folders import their own modules of the same name", async () => {
      const { main, lib, libName } = language.importing
      const values = []
      for (const [folder, value] of [
        ["one", 1],
        ["two", 2],
      ] as const) {
        mkdirSync(join(fixture.folder, folder))
        put(join(folder, `main.${language.extension}`), main)
        put(join(folder, libName), lib(value))
        values.push((await run(null, { node: { file: `${folder}/main.${language.extension}` } })).output)
      }
      expect(values).toEqual([{ inline: 1 }, { inline: 2 }])
    })

    test("a missing file, a missing function and a broken file fail with the reason", async () => {
      const missing = `missing.${language.extension}`
      expect((await run(null, { node: { file: missing } })).error).toBe(`${missing} does not exist in ${fixture.folder}`)
      expect((await run("absent")).error).toMatch(new RegExp(`${file} has no function absent.*echo`))
      put(`broken.${language.extension}`, "(((\n")
      expect((await run(null, { node: { file: `broken.${language.extension}` } })).state).toBe("failed")
    })

    test("a path outside of the folder fails without a retry", async () => {
      const end = await run(null, { node: { file: `../x.${language.extension}` } })
      expect(end).toMatchObject({ state: "failed", retryable: false, startedAt: null })
      expect(end.error).toMatch(/is outside of/)
    })

    test("a changed file is loaded again", async () => {
      const name = `changing.${language.extension}`
      put(name, language.returning(1))
      expect((await run(null, { node: { file: name } })).output).toEqual({ inline: 1 })
      put(name, language.returning(22))
      await vi.waitUntil(async () => {
        const { output } = await run(null, { node: { file: name } })
        return output !== undefined && "inline" in output && output.inline === 22
      }, TIMEOUT)
    })

    test("a change of an imported file is noticed too, but not in a bundle", async () => {
      const { main, lib, libName } = language.importing
      const name = `importing.${language.extension}`
      put(name, main)
      put(libName, lib(1))
      const bundle = { folder: fixture.folder, bundle: "hash" }
      expect((await run(null, { node: { file: name }, code: bundle })).output).toEqual({ inline: 1 })
      expect((await run(null, { node: { file: name } })).output).toEqual({ inline: 1 })
      put(libName, lib(22))
      await vi.waitUntil(async () => {
        const { output } = await run(null, { node: { file: name } })
        return output !== undefined && "inline" in output && output.inline === 22
      }, TIMEOUT)
      expect((await run(null, { node: { file: name }, code: bundle })).output).toEqual({ inline: 1 })
    })
  })
}
