// Results that push workers report: each is acknowledged only after its commit.

import { expect, test, vi } from "vitest"
import { PushExecutor } from "./push-executor.ts"
import type { PushedResult } from "../api/http/ports.ts"
import { systemClock, systemRandom } from "../engine/system.ts"
import type { Assignment, StopReason } from "../executors/executor.ts"
import { MemoryObjectStore } from "../objects/testing/memory.ts"

const ASSIGNMENT = {
  taskId: "task",
  attemptId: "attempt",
  runId: "run",
  prefix: "runs/run/task/attempt/",
  graceMs: 10,
  command: { shell: "true" },
  env: {},
  secrets: [],
  node: { timeoutMs: null },
} as unknown as Assignment

/** Launches a task on a worker that accepts it. */
const setup = async ({ objects = new MemoryObjectStore() } = {}) => {
  let token = ""
  const abort = new AbortController()
  const push = new PushExecutor({
    workers: ["http://worker"],
    key: "key",
    callback: () => "http://server",
    objects,
    clock: systemClock,
    random: systemRandom,
    fetch: (async (_url: string, { body }: { body: string }) => {
      token ||= (JSON.parse(body) as { token: string }).token
      return new Response("{}", { status: 202 })
    }) as never,
  })
  const launched = push.launch(ASSIGNMENT, { signal: abort.signal, started: () => {}, progress: () => {} })
  await vi.waitUntil(() => token !== "")
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
  return { push, launched, result, stop }
}

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
