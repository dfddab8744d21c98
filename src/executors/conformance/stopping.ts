// Tests of stops, and that no process survives the end of its attempt.

import { spawn } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import { expect, test, vi } from "vitest"
import { allLines, assignment, launch, marked } from "./fixture.ts"
import type { Capabilities, ExecutorFixture, Overrides } from "./fixture.ts"
import { leftoverScript, leftoverCount, newMark } from "./leftover-processes.ts"

/** Returns the arguments for host.ts, which runs the same kind of executor in a process of its own. */
export type HostArguments = (folder: string) => string[]

const HOST = fileURLToPath(new URL("./host.ts", import.meta.url))

export const stoppingTests = (fixture: () => ExecutorFixture, can: Capabilities, host: HostArguments): void => {
  const shell = (script: string, overrides?: Overrides) =>
    launch(fixture(), assignment(fixture().folder, { shell: script }, overrides))

  test("a cancel ends the task by SIGTERM", async () => {
    const running = shell("echo ready; exec sleep 600")
    await running.line("ready")
    running.stop("cancel")
    expect(await running.result).toMatchObject({ state: "cancelled", error: "cancelled", usage: { signal: "SIGTERM" } })
  })

  test("every process gets SIGTERM, and can clean up within the grace period", async () => {
    // The child continues after the main process has ended, until it has cleaned up.
    const cleanUp = "while kill -0 $PPID 2>/dev/null; do :; done; sleep 0.1; echo child cleaned; exit 0"
    const child = `trap "${cleanUp}" TERM; echo child ready; while :; do sleep 0.01; done`
    const running = shell(`CHILD='${child}'; sh -c "$CHILD" & trap 'echo main gone; exit 0' TERM; wait`)
    await running.line("child ready")
    running.stop("cancel")
    expect((await running.result).state).toBe("cancelled")
    const lines = (await allLines(running.log)).map((line) => line.line)
    expect(lines).toContain("main gone")
    expect(lines).toContain("child cleaned")
  })

  test("a process that ignores SIGTERM is killed after the grace period", async () => {
    const running = shell("trap '' TERM; echo ready; while :; do sleep 0.01; done", { graceMs: 100 })
    await running.line("ready")
    running.stop("timeout")
    expect(await running.result).toMatchObject({
      state: "timeout",
      error: "timed out after 60 s",
      usage: { signal: "SIGKILL" },
    })
  })

  test("processes that a stopped main process leaves are killed after the grace period", async () => {
    const mark = newMark()
    const script = `(trap '' TERM; echo ready; while :; do sleep 0.01; done) & wait`
    const running = shell(script, { graceMs: 100, env: { MARK: mark } })
    await running.line("ready")
    running.stop("cancel")
    expect((await running.result).state).toBe("cancelled")
    expect(marked(mark)).toEqual([])
  })

  test("the state is the reason of the stop, even if the process exits with 0", async () => {
    for (const [reason, state] of [
      ["cancel", "cancelled"],
      ["timeout", "timeout"],
      ["shutdown", "lost"],
      ["lost", "lost"],
    ] as const) {
      const running = shell("trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done")
      await running.line("ready")
      running.stop(reason)
      expect((await running.result).state, reason).toBe(state)
    }
  })

  test("an attempt can be stopped right after its launch, or before", async () => {
    const work = assignment(fixture().folder, { shell: "exec sleep 600" })
    const running = launch(fixture(), { ...work })
    running.stop("cancel")
    expect((await running.result).state).toBe("cancelled")
    const { executor } = fixture()
    const context = { signal: AbortSignal.abort("cancel"), started: () => expect.unreachable(), progress: () => {} }
    const end = await executor.launch(work, context)
    expect(end).toMatchObject({ state: "cancelled", startedAt: null })
  })

  test("background processes are killed at the end of the task, also after exit code 0", async () => {
    const mark = newMark()
    const running = shell(leftoverScript(mark, can.scrubbed), { env: { MARK: mark } })
    expect(await running.result).toMatchObject({ state: "success" })
    expect(marked(mark)).toEqual([])
  })

  test("a cancel kills daemonised grandchildren", async () => {
    const mark = newMark()
    const running = shell(`${leftoverScript(mark, can.scrubbed)}\nwait`, { env: { MARK: mark } })
    await running.line("ready")
    expect(marked(mark).length).toBe(leftoverCount(can.scrubbed))
    running.stop("cancel")
    expect((await running.result).state).toBe("cancelled")
    expect(marked(mark)).toEqual([])
  })

  test("a process that has lowered its limits is stopped, and killed if it is left", async () => {
    const mark = newMark()
    const lowered = `prlimit --rttime=1000000:1000000 sleep ${mark}`
    const running = shell(`echo ready; exec ${lowered}`)
    await running.line("ready")
    running.stop("timeout")
    expect((await running.result).state).toBe("timeout")
    const script = `(setsid ${lowered} >/dev/null 2>&1 &); ${lowered} & while [ "$(pgrep -c -f '^sleep ${mark}')" -lt 2 ]; do :; done`
    expect((await shell(script).result).state).toBe("success")
    expect(marked(mark)).toEqual([])
  })

  test.runIf(process.arch === "x64")(
    "a process whose parent is that of its task is killed at the end of the task",
    async () => {
      const mark = newMark()
      const clone = "ctypes.CDLL(None).syscall(56, 0x8000 | 17, 0, 0, 0, 0) == 0"
      const find = `subprocess.call(["pgrep", "-f", "^sleep ${mark}"])`
      const script = `import ctypes, os, subprocess\n${clone} and os.execvp("sleep", ["sleep", "${mark}"])\nwhile ${find}: pass`
      expect(await shell(`exec python3 -c '${script}'`).result).toMatchObject({ state: "success" })
      expect(marked(`sleep\0${mark}`)).toEqual([])
    },
  )

  test.runIf(process.geteuid?.() === 0)("a task with run_as can be stopped", async () => {
    const running = shell("echo ready; sleep 600; :", { node: { runAs: "nobody" }, workingDir: "/" })
    await running.line("ready")
    running.stop("cancel")
    expect((await running.result).state).toBe("cancelled")
  })

  test("the processes of an Ork inside of a task end with the task", async () => {
    const mark = newMark()
    const command = [process.execPath, HOST, ...host(fixture().folder), mark].map((word) => `'${word}'`).join(" ")
    const running = shell(`${command} & wait`, { graceMs: 0 })
    await running.line("ready")
    expect(marked(`sleep\0${mark}`).length).toBeGreaterThan(1)
    running.stop("cancel")
    expect((await running.result).state).toBe("cancelled")
    await vi.waitFor(() => expect(marked(`sleep\0${mark}`)).toEqual([]), { timeout: 10_000 })
  })

  test("the end of a task does not kill the daemons of another", async () => {
    const mark = newMark()
    const other = shell(`${leftoverScript(mark, can.scrubbed)}\nwait`, { env: { MARK: mark } })
    await other.line("ready")
    const before = marked(mark)
    expect(before.length).toBe(leftoverCount(can.scrubbed))
    for (let i = 0; i < 5; i++) expect((await shell("sleep 600 & true").result).state).toBe("success")
    expect(marked(mark)).toEqual(before)
    other.stop("cancel")
    await other.result
  })

  test("kill -9 of the process that runs the executor leaves no processes", async () => {
    const mark = newMark()
    const child = spawn(process.execPath, [HOST, ...host(fixture().folder), mark], { stdio: ["ignore", "pipe", "inherit"] })
    const [first] = (await once(child.stdout, "data")) as [Buffer]
    expect(first.toString()).toBe("ready\n")
    expect(marked(mark, [child.pid!]).length).toBe(leftoverCount(can.scrubbed))
    expect(marked(`-${child.pid}-`, [child.pid!])).not.toEqual([])
    child.kill("SIGKILL")
    await once(child, "close")
    // Tasks are found by their mark, and the helper by its owner among its arguments.
    await vi.waitFor(() => expect([...marked(mark), ...marked(`-${child.pid}-`)]).toEqual([]), { timeout: 10_000, interval: 5 })
  })
}
