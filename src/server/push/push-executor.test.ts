// Results that push workers report: each is acknowledged only after its commit.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test, vi } from "vitest"
import { PushExecutor } from "./push-executor.ts"
import type { PushedResult } from "../../api/http/ports.ts"
import { systemClock, systemRandom } from "../../engine/system.ts"
import type { Assignment, StopReason } from "../../executors/executor.ts"
import { MemoryObjectStore } from "../../objects/testing/memory.ts"

const ASSIGNMENT = {
  taskId: "task",
  attemptId: "attempt",
  runId: "run",
  prefix: "runs/run/task/attempt/",
  graceMs: 10,
  input: { own: 1 },
  command: { shell: "true" },
  env: {},
  secrets: [],
  node: { timeoutMs: null },
} as unknown as Assignment

/** Launches a task on a worker that accepts it. */
const setup = async ({ objects = new MemoryObjectStore(), assignment = ASSIGNMENT } = {}) => {
  let token = ""
  const inputs: unknown[] = []
  const abort = new AbortController()
  const push = new PushExecutor({
    workers: ["http://worker"],
    key: "key",
    callback: () => "http://server",
    objects,
    clock: systemClock,
    random: systemRandom,
    fetch: (async (_url: string, { body }: { body: string }) => {
      const request = JSON.parse(body) as { token: string; input: unknown }
      inputs.push(request.input)
      token ||= request.token
      return new Response("{}", { status: 202 })
    }) as never,
  })
  const launched = push.launch(assignment, { signal: abort.signal, started: () => {}, progress: () => {} })
  await Promise.race([vi.waitUntil(() => token !== ""), launched])
  const result = (more: Partial<PushedResult> = {}): PushedResult => ({
    taskId: "task",
    token,
    state: "success",
    output: 7,
    error: null,
    exitCode: 0,
    workerId: null,
    log: "",
    ...more,
  })
  const stop = (reason: StopReason) => abort.abort(reason)
  return { push, launched, result, stop, inputs }
}

test("files of upstream outputs are part of the input, up to 16 MiB", async () => {
  const upstreamDir = mkdtempSync(join(tmpdir(), "ork-upstream-"))
  onTestFinished(() => rmSync(upstreamDir, { recursive: true }))
  writeFileSync(join(upstreamDir, "load.json"), "[1, 2]\n")
  writeFileSync(join(upstreamDir, "huge.json"), JSON.stringify("x".repeat(17 * 1024 * 1024)))
  const { push, launched, result, inputs } = await setup({ assignment: { ...ASSIGNMENT, inputFiles: ["load"], upstreamDir } })
  void push.receive(result())
  expect(await launched).toMatchObject({ state: "success" })
  expect(inputs[0]).toEqual({ own: 1, load: [1, 2] })
  const rejected = await setup({ assignment: { ...ASSIGNMENT, inputFiles: ["huge"], upstreamDir } })
  expect(await rejected.launched).toMatchObject({
    state: "failed",
    retryable: false,
    error: expect.stringContaining("more than 16 MiB, which push workers do not accept: pass an address instead") as string,
  })
})

test("a result is acknowledged after its commit, also when it is repeated before", async () => {
  const { push, launched, result } = await setup()
  const received = vi.fn<(accepted: boolean) => void>()
  void push.receive(result()).then(received)
  void push.receive(result()).then(received)
  expect(await launched).toMatchObject({ state: "success", output: { inline: 7 } })
  expect(received).not.toHaveBeenCalled()
  push.committed("attempt", Promise.resolve(true))
  await vi.waitUntil(() => received.mock.calls.length === 2)
  expect(received.mock.calls).toEqual([[true], [true]])
})

test("a result that the store rejects, or whose commit fails, is not acknowledged", async () => {
  const rejected = await setup()
  const first = rejected.push.receive(rejected.result())
  await rejected.launched
  rejected.push.committed("attempt", Promise.resolve(false))
  expect(await first).toBe(false)
  const failing = await setup()
  const second = failing.push.receive(failing.result())
  await failing.launched
  failing.push.committed("attempt", Promise.reject(new Error("the engine is stopping")))
  await expect(second).rejects.toThrow("the engine is stopping")
})

test("a result that comes after its attempt has ended is not acknowledged", async () => {
  const { push, launched, result, stop } = await setup()
  stop("cancel")
  expect(await launched).toMatchObject({ state: "cancelled" })
  expect(await push.receive(result())).toBe(false)
})

test("a result whose log cannot be stored is not acknowledged, and can be sent again", async () => {
  const objects = new MemoryObjectStore()
  const { push, launched, result } = await setup({ objects })
  objects.broken = new Error("no space left")
  await expect(push.receive(result({ log: "a line\n" }))).rejects.toThrow("no space left")
  objects.broken = null
  const again = push.receive(result({ log: "a line\n" }))
  expect(await launched).toMatchObject({ state: "success" })
  push.committed("attempt", Promise.resolve(true))
  expect(await again).toBe(true)
})
