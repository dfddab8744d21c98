// How an attempt is stopped, and that nothing of it survives its end, whatever that was.

import { spawn } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import { expect, test, vi } from "vitest"
import { allLines, assignment, launch, marked } from "./fixture.ts"
import type { Capabilities, ExecutorFixture, Overrides } from "./fixture.ts"
import { leaveBehindScript, leftBehind, newMark } from "./leave-behind.ts"

/** Arguments for host.ts, which runs the same kind of executor in a process of its own. */
export type HostArguments = (folder: string) => string[]

const HOST = fileURLToPath(new URL("./host.ts", import.meta.url))

export const stoppingTests = (fixture: () => ExecutorFixture, can: Capabilities, host: HostArguments): void => {
  const shell = (script: string, overrides?: Overrides) =>
    launch(fixture(), assignment(fixture().folder, { shell: script }, overrides))

  test("cancel ends it by SIGTERM", async () => {
    const running = shell("echo ready; exec sleep 600")
    await running.line("ready")
    running.stop("cancel")
    expect(await running.result).toMatchObject({ state: "cancelled", error: "cancelled", usage: { signal: "SIGTERM" } })
  })

  test("every process of it is told, and may clean up within the grace", async () => {
    // The child goes on after the main process is gone, until it has cleaned up.
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

  test("a process that ignores SIGTERM is killed after the grace", async () => {
    const running = shell("trap '' TERM; echo ready; while :; do sleep 0.01; done", { graceMs: 100 })
    await running.line("ready")
    running.stop("timeout")
    expect(await running.result).toMatchObject({
      state: "timeout",
      error: "timed out after 60 s",
      usage: { signal: "SIGKILL" },
    })
  })

  test("what the main process leaves behind when stopped is killed after the grace", async () => {
    const mark = newMark()
    const script = `(trap '' TERM; echo ready; while :; do sleep 0.01; done) & wait`
    const running = shell(script, { graceMs: 100, env: { MARK: mark } })
    await running.line("ready")
    running.stop("cancel")
    expect((await running.result).state).toBe("cancelled")
    expect(marked(mark)).toEqual([])
  })

  test("the reason of the stop is the state, even when the process exits 0", async () => {
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

  test("a stop at once, or before the start, is a stop", async () => {
    const work = assignment(fixture().folder, { shell: "exec sleep 600" })
    const running = launch(fixture(), { ...work })
    running.stop("cancel")
    expect((await running.result).state).toBe("cancelled")
    const { executor } = fixture()
    const context = { signal: AbortSignal.abort("cancel"), started: () => expect.unreachable(), progress: () => {} }
    const end = await executor.launch(work, context)
    expect(end).toMatchObject({ state: "cancelled", startedAt: null })
  })

  test("what it left running in the background dies at its end, also after exit 0", async () => {
    const mark = newMark()
    const running = shell(leaveBehindScript(mark, can.scrubbed), { env: { MARK: mark } })
    expect(await running.result).toMatchObject({ state: "success" })
    expect(marked(mark)).toEqual([])
  })

  test("daemonised grandchildren die on cancel", async () => {
    const mark = newMark()
    const running = shell(`${leaveBehindScript(mark, can.scrubbed)}\nwait`, { env: { MARK: mark } })
    await running.line("ready")
    expect(marked(mark).length).toBe(leftBehind(can.scrubbed))
    running.stop("cancel")
    expect((await running.result).state).toBe("cancelled")
    expect(marked(mark)).toEqual([])
  })

  test("the end of one task does not touch the daemons of another", async () => {
    const mark = newMark()
    const other = shell(`${leaveBehindScript(mark, can.scrubbed)}\nwait`, { env: { MARK: mark } })
    await other.line("ready")
    const before = marked(mark)
    expect(before.length).toBe(leftBehind(can.scrubbed))
    for (let i = 0; i < 5; i++) expect((await shell("sleep 600 & true").result).state).toBe("success")
    expect(marked(mark)).toEqual(before)
    other.stop("cancel")
    await other.result
  })

  test("kill -9 of the process that runs the executor leaves nothing", async () => {
    const mark = newMark()
    const child = spawn(process.execPath, [HOST, ...host(fixture().folder), mark], { stdio: ["ignore", "pipe", "inherit"] })
    const [first] = (await once(child.stdout, "data")) as [Buffer]
    expect(first.toString()).toBe("ready\n")
    expect(marked(mark, [child.pid!]).length).toBe(leftBehind(can.scrubbed))
    expect(marked(`-${child.pid}-`, [child.pid!])).not.toEqual([])
    child.kill("SIGKILL")
    await once(child, "close")
    // Tasks by their mark, and the helper by the name of its owner among its arguments.
    await vi.waitFor(() => expect([...marked(mark), ...marked(`-${child.pid}-`)]).toEqual([]), { timeout: 10_000, interval: 5 })
  })
}
