// `ork exec` end to end: an executor built from the engine's side (writeSpec, watchExec) starts the built command as a container would,
// with environment variables only. Runs on every object store that another process can reach.

import { spawn } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest"
import { allLines, assignment, launch, realClock, type ExecutorFixture } from "../../src/executors/conformance/fixture.ts"
import { type ContainerEnd, writeSpec, watchExec } from "../../src/executors/exec/exec.ts"
import type { Assignment, Executor, LaunchContext } from "../../src/executors/executor.ts"
import { artifactKey, readArtifactList } from "../../src/objects/artifacts/artifact-list.ts"
import { attemptPrefix, type ObjectStore } from "../../src/objects/objects.ts"
import { containing } from "../support/matchers.ts"
import { ORK } from "../support/ork.ts"

export interface ExecTarget {
  objects: ObjectStore
  /** The value of ORK_OBJECT_STORE for the command. */
  address: string
  env: { [name: string]: string }
}

/** Starts `ork exec` as a process of this machine. */
class LocalExecutor implements Executor {
  readonly name = "by-exec"
  readonly #where: ExecTarget
  readonly #folder: string
  pid = 0

  constructor(where: ExecTarget, folder: string) {
    this.#where = where
    this.#folder = folder
  }

  async launch(work: Assignment, context: LaunchContext) {
    const { objects, address, env } = this.#where
    const { environment } = await writeSpec(objects, work, { store: address })
    const child = spawn(ORK, ["exec"], {
      cwd: this.#folder,
      env: { PATH: process.env.PATH, HOME: process.env.HOME, TMPDIR: this.#folder, ...env, ...environment },
      stdio: "ignore",
    })
    this.pid = child.pid!
    const containerEnd = new Promise<ContainerEnd>((resolve) => {
      child.once("exit", (code, signal) =>
        resolve({ state: "lost", error: `ork exec ended without a result: ${signal ?? code}` }),
      )
    })
    context.signal.addEventListener("abort", () => child.kill("SIGTERM"))
    return watchExec({ objects, clock: realClock, assignment: work, context, containerEnd })
  }
}

export const execSuite = (name: string, open: () => Promise<ExecTarget>): void => {
  describe(`ork exec on ${name}`, () => {
    let fixture: ExecutorFixture
    let where: ExecTarget
    let executor: LocalExecutor

    beforeAll(async () => {
      const folder = mkdtempSync(join(tmpdir(), "ork-exec-test-"))
      where = await open()
      executor = new LocalExecutor(where, folder)
      fixture = { executor, objects: where.objects, folder, cleanup: async () => rmSync(folder, { recursive: true }) }
    }, 240_000)
    afterAll(() => fixture.cleanup())

    const go = (shell: string, overrides = {}) => launch(fixture, assignment(fixture.folder, { shell }, overrides))
    const texts = async (log: ReturnType<typeof go>["log"]): Promise<string[]> => (await allLines(log)).map(({ line }) => line)

    test("passes input, variables and secrets, and returns log, output and exit code", async () => {
      const work = {
        env: { PLAIN: "yes", TOKEN: "hunter2-and-more" },
        secrets: ["hunter2-and-more"],
        input: { greeting: "grüße" },
      }
      const script = `cat; echo; echo "$PLAIN \${#TOKEN} $ORK_ATTEMPT $ORK_TASK_NAME"; env | grep -c ORK_EXEC_SECRET || true; echo "$TOKEN"; echo '{"rows":3}'`
      const { result, log, started } = go(script, work)
      const end = await result
      expect(end).toMatchObject({ state: "success", exitCode: 0, output: { inline: { rows: 3 } } })
      expect((await started).at).toBe(end.startedAt)
      expect(await texts(log)).toEqual(['{"greeting":"grüße"}', "yes 16 1 task", "0", "***", '{"rows":3}'])
    })

    test("a failure has an error message", async () => {
      expect(await go("echo no >&2; exit 3").result).toMatchObject({ state: "failed", exitCode: 3, error: "exit code 3" })
    })

    test("a large output becomes an object, and large upstream outputs are files", async () => {
      const upstream = mkdtempSync(join(tmpdir(), "ork-upstream-"))
      await writeFile(join(upstream, "load.json"), JSON.stringify(["x".repeat(200_000)]))
      const end = await go(`cp "$ORK_UPSTREAM/load.json" "$ORK_OUTPUT"`, { upstreamDir: upstream }).result
      rmSync(upstream, { recursive: true })
      const output = end.output as { key: string; bytes: number }
      expect(output.bytes).toBe(200_004)
      expect(await where.objects.size(output.key)).toBe(200_004)
    })

    test("large upstream outputs are part of the input", async () => {
      const upstream = mkdtempSync(join(tmpdir(), "ork-upstream-"))
      await writeFile(join(upstream, "load.json"), JSON.stringify(["x".repeat(200_000)]))
      const end = await go(`cp "$ORK_INPUT" "$ORK_OUTPUT"`, { input: { own: 1 }, inputFiles: ["load"], upstreamDir: upstream })
        .result
      rmSync(upstream, { recursive: true })
      const { key } = end.output as { key: string }
      const text = Buffer.from((await where.objects.get(key))!).toString()
      expect(JSON.parse(text)).toEqual({ own: 1, load: ["x".repeat(200_000)] })
    })

    test("gets artifacts of upstream tasks, and stores its own", async () => {
      const { objects } = where
      const source = attemptPrefix("run-1", "load", "attempt-of-load")
      await objects.put(artifactKey(source, "out/a b.txt"), "hello")
      const upstreamArtifacts = [{ folder: "load", prefix: source, files: [{ path: "out/a b.txt", bytes: 5 }] }]
      const artifacts = { patterns: ["made/*"], maxBytes: 100 }
      const script = `mkdir -p made; cp "$ORK_ARTIFACTS/load/out/a b.txt" made/copy.txt`
      const work = assignment(fixture.folder, { shell: script }, { upstreamArtifacts, artifacts })
      expect(await launch(fixture, work).result).toMatchObject({ state: "success" })
      expect(await readArtifactList(objects, work.prefix)).toEqual([{ path: "made/copy.txt", bytes: 5 }])
      expect(Buffer.from((await objects.get(artifactKey(work.prefix, "made/copy.txt")))!).toString()).toBe("hello")
      const missing = await go("true", { artifacts: { patterns: ["nothing/*"], maxBytes: 100 } }).result
      expect(missing).toMatchObject({ state: "failed", error: containing('matches "nothing/*"') })
    })

    test("its log can be followed while it runs, and a cancel stops it and keeps the log", async () => {
      const running = go("echo up; exec sleep 600")
      await running.line("up")
      running.stop("cancel")
      expect(await running.result).toMatchObject({ state: "cancelled" })
      expect(await texts(running.log)).toEqual(["up"])
    })

    test("SIGTERM stops the task, which counts as lost", async () => {
      const running = go("echo up; exec sleep 600")
      await running.line("up")
      process.kill(executor.pid, "SIGTERM")
      expect(await running.result).toMatchObject({
        state: "lost",
        error: expect.stringMatching(/stopped by a signal/) as string,
      })
    })

    test("it enforces the timeout itself", async () => {
      const end = await go("exec sleep 600", { node: { timeoutMs: 500 } }).result
      expect(end).toMatchObject({ state: "timeout", error: "timed out after 500ms" })
    })

    test("a killed `ork exec` is noticed, and an attempt is not run twice", async () => {
      const attemptId = `attempt-${Date.now()}`
      const running = go("echo up; exec sleep 600", { attemptId })
      await running.line("up")
      process.kill(executor.pid, "SIGKILL")
      expect(await running.result).toMatchObject({ state: "lost", error: expect.stringMatching(/SIGKILL/) as string })
      const child = spawn(ORK, ["exec"], {
        cwd: fixture.folder,
        env: {
          PATH: process.env.PATH,
          ...where.env,
          ORK_OBJECT_STORE: where.address,
          TASK_SPEC_PATH: `${attemptPrefix("run-1", "task", attemptId)}spec.json`,
        },
        stdio: ["ignore", "ignore", "pipe"],
      })
      let stderr = ""
      child.stderr.on("data", (data: Buffer) => (stderr += data.toString()))
      await vi.waitUntil(() => child.exitCode !== null, { timeout: 10_000 })
      expect(child.exitCode).toBe(2)
      expect(stderr).toMatch(/was started before/)
    })
  })
}
