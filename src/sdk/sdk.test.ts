import { describe, expect, expectTypeOf, it } from "vitest"
import {
  type FunctionContext,
  type JsonObject,
  register,
  startWorker,
  type TaskFunction,
  type WorkerSettings,
} from "./index.ts"

const nothing = (): void => {}
interface Size {
  width: number
}

describe("register", () => {
  it("accepts a function once, under a valid name", () => {
    register("sdk.once", nothing)
    expect(() => register("sdk.once", nothing)).toThrow("a function sdk.once is already registered")
    expect(() => register("a b", nothing)).toThrow('"a b" is not a valid function name: use at most 64 letters')
    expect(() => register("none", 1 as unknown as TaskFunction)).toThrow("the value registered as none is not a function")
  })

  it("infers the types of its function", () => {
    register("sdk.typed", (input: { width: number }, ctx) => {
      expectTypeOf(input.width).toBeNumber()
      expectTypeOf(ctx).toEqualTypeOf<FunctionContext>()
    })
    register("sdk.plain", (input) => expectTypeOf(input).toEqualTypeOf<JsonObject>())
    expectTypeOf<(width: number, height: number) => void>().not.toExtend<TaskFunction<number>>()
  })
})

describe("startWorker", () => {
  it("accepts functions of any input, and infers their context", () => {
    const given: WorkerSettings = {
      functions: {
        resize: async (input: Size, { signal }) => ({ width: input.width, stopped: signal.aborted }),
        any: (input, ctx) => {
          expectTypeOf(input).toBeUnknown()
          expectTypeOf(ctx).toEqualTypeOf<FunctionContext>()
        },
      },
      handlers: { emails: (payload: { to: string }, ctx) => [payload.to, ctx.taskName] },
    }
    expect(Object.keys(given)).toEqual(["functions", "handlers"])
    expectTypeOf<{ functions: { resize: number } }>().not.toExtend<WorkerSettings>()
    expectTypeOf<{ functions: { resize: (a: Size, ctx: string) => void } }>().not.toExtend<WorkerSettings>()
  })

  it.each<[string, WorkerSettings, RegExp]>([
    ["an invalid name", { functions: { "a b": nothing } }, /"a b" is not a valid function name/],
    ["a registered name", { functions: { "sdk.once": nothing } }, /a function sdk\.once is already registered/],
    ["an invalid queue", { handlers: { "my-mails": nothing } }, /"my-mails" is not a valid queue name/],
    ["an invalid address", { server: "ork:4000", apiKey: "k" }, /"ork:4000" is not an address of a server such as http:/],
    [
      "a missing key",
      { functions: { f: nothing }, apiKey: "" },
      /give it a key with the scope worker as apiKey or ORK_API_KEY/,
    ],
  ])("rejects %s before it contacts a server", async (_, given, message) => {
    await expect(startWorker(given)).rejects.toThrow(message)
  })

  it("stops trying servers that do not answer when its signal aborts", async () => {
    const log = { info: nothing, warn: () => abort.abort(new Error("enough")), error: nothing }
    const abort = new AbortController()
    const started = startWorker({
      server: "http://127.0.0.1:1",
      apiKey: "k",
      functions: { f: nothing },
      log,
      signal: abort.signal,
    })
    await expect(started).rejects.toThrow("enough")
  })
})
