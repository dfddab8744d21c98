// Tests of how functions and their worker processes end: stops, crashes, and processes that are left.

import { readdirSync } from "node:fs"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest"
import { type FunctionFixture, type Language, launcherFor } from "./function-fixture.ts"
import { allLines, assignment, marked, uniqueId } from "./fixture.ts"

export interface FunctionStopOptions {
  language: Language
  make(options?: { maxTasks?: number }): Promise<FunctionFixture>
  /** True when the helper can set limits. */
  limits: boolean
}

export const functionStopTests = ({ language, make, limits }: FunctionStopOptions): void => {
  const file = `functions.${language.extension}`
  let fixture: FunctionFixture
  const { go, run, put } = launcherFor(language, () => fixture)
  const setup = async (options?: { maxTasks?: number }): Promise<void> => {
    fixture = await make(options)
    put(file, language.functions)
  }

  describe(`stops of functions in ${language.name}`, () => {
    beforeEach(() => setup())
    afterEach(() => fixture.cleanup())

    test("a worker is retired after its maximum number of tasks", async () => {
      await fixture.cleanup()
      await setup({ maxTasks: 2 })
      const ends = [await run("nothing"), await run("nothing"), await run("nothing")]
      expect(ends[1]!.externalId).toBe(ends[0]!.externalId)
      expect(ends[2]!.externalId).not.toBe(ends[1]!.externalId)
      await vi.waitUntil(() => fixture.workers().length === 1, { timeout: 20_000 })
    })

    test("a busy loop that does not use its signal is killed at once", async () => {
      const { result, line, stop } = go("spin", { graceMs: 20_000 })
      await line("spinning")
      stop("timeout")
      expect(await result).toMatchObject({ state: "timeout", error: "timed out after 60 s" })
      expect(fixture.workers()).toEqual([])
      expect((await run("nothing")).state).toBe("success")
    })

    test("a function that uses its signal can end by itself", async () => {
      const { result, line, stop, log } = go("listen")
      await line("listening")
      stop("cancel")
      expect(await result).toMatchObject({ state: "cancelled", error: "cancelled" })
      expect((await allLines(log)).map(({ line: text }) => text)).toContain("cleaned up")
    })

    test("a function that ignores its signal is killed after the grace period", async () => {
      const { result, line, stop } = go("ignore", { graceMs: 100 })
      await line("ignoring")
      stop("timeout")
      expect(await result).toMatchObject({ state: "timeout" })
      expect(fixture.workers()).toEqual([])
    })

    test("a task that waits for a worker can be stopped", async () => {
      const controller = new AbortController()
      const work = assignment(fixture.folder, null, { node: { file, function: "nothing" } })
      const ended = fixture.executor.launch(work, { signal: controller.signal, started: () => {}, progress: () => {} })
      controller.abort("cancel")
      expect(await ended).toMatchObject({ state: "cancelled", startedAt: null })
    })

    test("a worker process that dies fails the attempt, and the next attempt gets another worker", async () => {
      const end = await run("die")
      expect(end).toMatchObject({
        state: "failed",
        error: "its worker process ended before the function did: killed by SIGKILL",
      })
      expect((await run("leave")).error).toBe("its worker process ended before the function did: exit code 3")
      expect((await run("nothing")).state).toBe("success")
    })

    test("processes that a function leaves are killed at the end of its task", async () => {
      const mark = `${600 + Math.random()}`
      const end = await run("spawn", { input: mark })
      expect(end.state).toBe("success")
      expect(marked(`sleep\0${mark}`)).toEqual([])
    })

    test("processes of a stopped function are killed with it", async () => {
      const mark = `${600 + Math.random()}`
      const { result, line, stop } = go("spawn_and_wait", { input: mark })
      await line("waiting")
      expect(marked(`sleep\0${mark}`)).toHaveLength(1)
      stop("cancel")
      expect((await result).state).toBe("cancelled")
      expect(marked(`sleep\0${mark}`)).toEqual([])
    })

    test("a stop of the executor ends every worker and leaves no files", async () => {
      const mark = uniqueId()
      await run("nothing")
      const { line } = go("spin", { env: { MARK: mark } })
      await line("spinning")
      const workers = fixture.workers()
      expect(workers.length).toBeGreaterThan(0)
      await fixture.executor.stop!()
      expect(fixture.workers()).toEqual([])
      expect(readdirSync("/dev/shm").filter((name) => name.includes(`-${process.pid}-`))).toEqual([])
    })

    test.runIf(process.geteuid?.() === 0)("a task with run_as has its own worker", async () => {
      const code = { folder: fixture.folder, bundle: null }
      const end = await run("user", { node: { runAs: "nobody", file }, workingDir: "/", code })
      expect(end).toMatchObject({ state: "success", output: { inline: 65534 } })
    })

    test("no other process can open the pipes of a task, which have no names", async () => {
      const running = go("spin")
      await running.line("spinning")
      const folders = readdirSync("/dev/shm").filter((name) => name.includes(`-${process.pid}-`))
      expect(folders.length).toBeGreaterThan(0)
      expect(folders.flatMap((name) => readdirSync(join("/dev/shm", name)))).toEqual([])
      running.stop("cancel")
      await running.result
    })

    test.runIf(limits && process.geteuid?.() === 0)(
      "a task with resources has its own worker, a new one each time",
      async () => {
        const node = { resources: { memoryBytes: 2 ** 30 } }
        const ends = [await run("nothing", { node }), await run("nothing", { node })]
        expect(ends.map((end) => end.state)).toEqual(["success", "success"])
        expect(ends[0]!.externalId).not.toBe(ends[1]!.externalId)
      },
    )
  })
}
