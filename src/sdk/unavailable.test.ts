// A database that is away, as a program sees it: one error class with advice, whatever the call.

import { expect, it } from "vitest"
import { StoreUnavailable } from "../store/contract/errors.ts"
import type { ServerStore } from "../store/contract/server-store.ts"
import { OrkClient } from "./client.ts"
import { signal, task, workflow } from "./definitions.ts"
import { OrkError, UnavailableError } from "./errors.ts"
import { Ork } from "./ork.ts"
import type { Orkable } from "./orkable.ts"
import { openKit } from "./test.ts"

const plain = task("plain", {}, () => null)
const flow = workflow("flow", {}, (_, step) => step.sleep("a while", "30d"))
const paid = signal("paid")

/** Each call of a program that reaches the database. */
const calls = (ork: Orkable, id: string): Record<string, () => Promise<unknown>> => ({
  enqueue: () => ork.enqueue(plain, null),
  "enqueue of a run": () => ork.enqueue(flow, {}),
  enqueueAll: () => ork.enqueueAll(plain, [null]),
  get: () => ork.get(id),
  list: () => Array.fromAsync(ork.list({ def: plain })),
  "list of runs": () => Array.fromAsync(ork.list({ def: "flow" })),
  signal: () => ork.signal(id, paid, null),
  events: () => ork.events().next(),
  approve: () => ork.approve(id, "x"),
  schedule: () => ork.schedule("s", "0 8 * * 1", plain, {}),
  unschedule: () => ork.unschedule("s"),
})

const expectUnavailable = async (name: string, call: () => Promise<unknown>, reason: string): Promise<void> => {
  const error = await call().catch((thrown: unknown) => thrown)
  expect(error, name).toBeInstanceOf(UnavailableError)
  expect(error, name).toBeInstanceOf(OrkError)
  expect((error as Error).message, name).toContain(reason)
  expect((error as Error).message, name).toContain("enqueue with a key")
}

it("each call of a program says that the database is not available", async () => {
  let isAway = false
  const failing = (store: ServerStore): ServerStore =>
    new Proxy(store, {
      get: (target, name: keyof ServerStore) => {
        const member: unknown = Reflect.get(target, name)
        if (typeof member !== "function" || name === "close" || name === "onWake") return member
        return (...args: unknown[]): unknown =>
          isAway
            ? Promise.reject(new StoreUnavailable("app.db", "the disk is full"))
            : (member as (...given: unknown[]) => unknown).apply(target, args)
      },
    })
  const ork = await openKit({ run: [flow], store: failing })
  const job = await ork.enqueue(plain, null, { delay: "30d" })
  const run = await ork.enqueue(flow, {})
  await ork.advance("1s")
  isAway = true
  for (const [name, call] of Object.entries(calls(ork, run.id))) await expectUnavailable(name, call, "app.db is not available")
  for (const work of [job, run])
    for (const name of ["result", "cancel", "retry", "refresh"] as const)
      await expectUnavailable(`${name} of ${work.name}`, () => work[name](), "the disk is full")
  isAway = false
  expect((await run.refresh()).status).toBe("running")
  await ork.stop()
})

it.each([
  ["no server responds", () => Promise.reject(new TypeError("fetch failed"))],
  ["its database is away", async () => Response.json({ error: { code: "UNAVAILABLE", message: "away" } }, { status: 503 })],
  ["a proxy has no server", async () => new Response("<html>", { status: 502 })],
])("each call of a client says so when %s", async (_, answer) => {
  const fetch: typeof globalThis.fetch = () => answer()
  const client = new OrkClient({ url: "http://127.0.0.1:1", key: "k", fetch })
  await expectUnavailable("enqueue", () => client.enqueue(plain, null), "")
  await expectUnavailable("unschedule", () => client.unschedule("s"), "")
})

it("a database that cannot be reached is named when it is opened", async () => {
  const opened = Ork.open({ database: "postgres://nobody@127.0.0.1:1/none", run: [] })
  await expect(opened).rejects.toThrow(UnavailableError)
  await expect(opened).rejects.toThrow(
    /Ork\.open: the database 127\.0\.0\.1:1\/none is not available: .*check the option database/,
  )
})

it.skipIf(process.platform !== "linux").each(["/proc/none/below/app.db", "/proc/none.db", "/proc"])(
  "a file that cannot be created is named (%s)",
  async (file) => {
    const opened = Ork.open({ database: `sqlite:${file}`, run: [] })
    await expect(opened).rejects.toThrow(UnavailableError)
    await expect(opened).rejects.toThrow(`the database ${file} is not available: E`)
    await expect(opened).rejects.toThrow("use a file in a folder that can be written; check the option database")
  },
)
