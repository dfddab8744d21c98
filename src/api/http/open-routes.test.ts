// Routes without a key accept little data, and verify what a caller without a key can prove before they read its body.

import { expect, test } from "vitest"
import { ROUTES } from "../routes/table.ts"
import { parseJson } from "./body.ts"
import { setup } from "../testing/setup.ts"
import type { PushedResult } from "./ports.ts"

const OPEN = ROUTES.filter((route) => route.scope === null && route.method === "POST")
const KEYLESS = { key: null } as const

const pathOf = (path: string): string => path.replaceAll(/\{\w+\}/g, "some")

test.each(OPEN.map((route) => [route.path]))("%s rejects a body of more than 16 KB", async (path) => {
  await using api = await setup({ push: { hasToken: () => false, receive: async () => false, list: async () => [] } })
  const body = { key: "x".repeat(17_000) }
  const { status } = await api.call("POST", pathOf(path), { ...KEYLESS, body })
  expect([401, 404, 413]).toContain(status)
  expect(api.logged.join("")).not.toContain("xxx")
})

test("a route without a key reports at most 20 problems, and their number", async () => {
  await using api = await setup()
  const body = Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`field${i}`, 1]))
  const { status, body: received, text } = await api.call("POST", "/ui/sign-in", { ...KEYLESS, body })
  expect(status).toBe(400)
  expect(received.error!.details).toHaveLength(20)
  expect(received.error!.message).toContain("and 500 more")
  expect(text.length).toBeLessThan(4000)
})

test("a route with a key reports at most 100 problems", async () => {
  await using api = await setup()
  const body = Object.fromEntries(Array.from({ length: 5000 }, (_, i) => [`field${i}`, 1]))
  const { body: received } = await api.call("POST", "/keys", { body })
  expect(received.error!.details).toHaveLength(100)
})

test("a callback with a wrong token is rejected before its body is read", async () => {
  await using api = await setup()
  const wrong = { ...KEYLESS, body: "not JSON", headers: { "content-type": "application/json" } }
  expect((await api.call("POST", `/callbacks/1-${"0".repeat(32)}-${"0".repeat(32)}`, wrong)).status).toBe(404)
})

test("a pushed result with a wrong token is rejected before its body is read", async () => {
  await using api = await setup({
    push: { hasToken: (token) => token === "right", receive: async () => true, list: async () => [] },
  })
  const send = (token: string) =>
    api.call("POST", "/internal/task-result", {
      ...KEYLESS,
      body: { task_instance_id: "t", status: "success", output: "x".repeat(100_000) },
      headers: { authorization: `Bearer ${token}` },
    })
  expect((await send("wrong")).status).toBe(409)
  expect((await send("right")).status).toBe(204)
})

test.each(["9007199254740993", "1e999"])(
  "a pushed result with the number %s fails its task, and is not rejected",
  async (number) => {
    const received: PushedResult[] = []
    await using api = await setup({
      push: { hasToken: () => true, receive: async (result) => received.push(result) > 0, list: async () => [] },
    })
    const { status } = await api.call("POST", "/internal/task-result", {
      ...KEYLESS,
      body: `{"task_instance_id":"t","status":"success","exit_code":0,"output":{"id":${number}}}`,
      headers: { authorization: "Bearer right", "content-type": "application/json" },
    })
    expect([status, received]).toMatchObject([
      204,
      [
        {
          state: "failed",
          output: null,
          exitCode: 0,
          error: expect.stringContaining(`its output contains the number ${number}`),
        },
      ],
    ])
  },
)

test("a token in the body of a pushed result is accepted for small results only", async () => {
  await using api = await setup({
    push: { hasToken: () => false, receive: async ({ token }) => token === "right", list: async () => [] },
  })
  const send = (output: string) =>
    api.call("POST", "/internal/task-result", {
      ...KEYLESS,
      body: { task_instance_id: "t", status: "success", token: "right", output },
    })
  expect((await send("small")).status).toBe(204)
  expect((await send("x".repeat(20_000))).status).toBe(413)
})

test("a webhook that is not signed or too old is rejected before its body is read", async () => {
  await using api = await setup()
  await api.deploy("etl", { a: "true" }, { webhook: { secret: "HOOK" } })
  const send = (headers: Record<string, string>) =>
    api.call("POST", "/hooks/etl", {
      ...KEYLESS,
      body: "x".repeat(17_000),
      headers: { "content-type": "application/json", ...headers },
    })
  expect((await send({})).status).toBe(401)
  const signature = `sha256=${"0".repeat(64)}`
  expect((await send({ "x-ork-timestamp": "1000", "x-ork-signature": signature })).status).toBe(401)
  const now = String(Math.floor(Date.now() / 1000))
  expect((await send({ "x-ork-timestamp": now, "x-ork-signature": signature })).status).toBe(413)
})

test("a megabyte of long numbers is parsed in linear time", () => {
  const elapsed = (text: string): number => {
    const start = performance.now()
    expect(() => parseJson(text)).not.toThrow()
    return performance.now() - start
  }
  const numbers = (digits: number): string =>
    `[${Array(Math.floor(1_000_000 / digits))
      .fill(`0.${"1".repeat(digits)}`)
      .join()}]`
  const short = elapsed(numbers(10))
  expect(elapsed(numbers(300))).toBeLessThan(Math.max(60, 4 * short))
})

test("a number that is too large is rejected wherever it is", () => {
  expect(() => parseJson('{"a":[1,{"b":1e999}]}')).toThrow("too large")
  expect(() => parseJson(`[-${"9".repeat(400)}]`)).toThrow("too large")
  expect(() => parseJson('{"a":[9007199254740993]}')).toThrow(
    "the body contains the number 9007199254740993, which would change",
  )
  expect(parseJson('{"a":[9007199254740991]}')).toEqual({ a: [9007199254740991] })
  expect(parseJson('{"a":[1,"1e999"]}')).toEqual({ a: [1, "1e999"] })
})
