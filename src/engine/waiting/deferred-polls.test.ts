import { expect, test } from "vitest"
import { DeferredPolls } from "./deferred-polls.ts"
import type { EngineOptions } from "../ports.ts"
import type { Node } from "../../core/model/workflow.ts"
import type { TaskClaim } from "../../store/contract/store.ts"

test("of a thousand polls of a service that does not respond, each is postponed a few times a minute", async () => {
  let now = 0
  let requests = 0
  const polls = new DeferredPolls({
    clock: { now: () => now, monotonic: () => now, after: () => () => {} },
    random: { next: () => 0.5, hex128: () => "" },
    fetch: () => {
      requests += 1
      return new Promise<never>(() => {})
    },
  } as unknown as EngineOptions)
  const poll = { url: "https://slow.test/7", method: "GET", headers: {}, everyMs: 1000, doneWhen: "true" } as const
  /** Resolves with the pause after which the poll is due again; with null when it was sent. */
  const send = async (): Promise<number | null> => {
    const step = await Promise.race([
      polls.poll({ kind: "poll", poll, errors: 0 } as never, {} as TaskClaim, { env: {} } as Node, null),
      new Promise<null>((resolve) => setImmediate(resolve, null)),
    ])
    return step !== null && "delayMs" in step ? step.delayMs : null
  }
  const due: number[] = Array.from({ length: 1016 }, () => 0)
  let postponed = 0
  while (due.length > 0) {
    now = due.shift()!
    if (now > 20_000) break
    const delayMs = await send()
    if (delayMs === null) continue
    postponed += 1
    due.push(now + delayMs)
    due.sort((a, b) => a - b)
  }
  expect(requests).toBe(16)
  expect(postponed).toBeGreaterThan(1000)
  expect(postponed).toBeLessThan(4000)
})
