import { expect, test } from "vitest"
import { signatureOf } from "../../protocol/wire/signature.ts"
import { setup } from "../testing/setup.ts"

const setupHooks = async (change: Parameters<typeof setup>[0] = {}) => {
  const api = await setup(change)
  await api.deploy("etl", { a: "true" }, { webhook: { secret: "HOOK" }, params: { day: "monday" } })
  await api.deploy("closed", { a: "true" })
  await api.deploy("unset", { a: "true" }, { webhook: { secret: "OTHER" } })
  const send = (name: string, body: string, change: { age?: number; signature?: string; secret?: string } = {}) => {
    const timestamp = String(Math.floor(Date.now() / 1000) - (change.age ?? 0))
    const signature = change.signature ?? signatureOf(change.secret ?? "hook-secret", timestamp, body)
    const headers = { "content-type": "application/json", "x-ork-timestamp": timestamp, "x-ork-signature": signature }
    return api.call("POST", `/hooks/${name}`, { key: null, body, headers })
  }
  return Object.assign(api, { send })
}

test("a signed message triggers a run with its body as params, and a repeated message returns the same run", async () => {
  await using api = await setupHooks()
  const body = '{"day":"tuesday"}'
  const first = await api.send("etl", body)
  expect([first.status, first.body["trigger"], first.body["params"]]).toEqual([201, "webhook", { day: "tuesday" }])
  const again = await api.send("etl", body)
  expect([again.status, again.body["id"]]).toEqual([200, first.body["id"]])
})

test("a message with a wrong, old or missing signature is rejected and creates no run", async () => {
  await using api = await setupHooks()
  expect((await api.send("etl", "{}", { secret: "wrong" })).status).toBe(401)
  expect((await api.send("etl", "{}", { signature: "" })).status).toBe(401)
  const late = await api.send("etl", "{}", { age: 301 })
  expect([late.status, late.body.error!.message]).toEqual([401, expect.stringContaining("five minutes")])
  expect((await api.send("etl", "{}", { age: -301 })).status).toBe(401)
  expect((await api.call("POST", "/hooks/etl", { key: null, body: {} })).status).toBe(401)
  expect((await api.call("GET", "/runs")).body["items"]).toEqual([])
})

test("a workflow without a webhook is not distinguishable from a missing one", async () => {
  await using api = await setupHooks()
  expect((await api.send("closed", "{}")).status).toBe(404)
  expect((await api.send("nothing", "{}")).status).toBe(404)
  expect((await api.send("unset", "{}")).status).toBe(503)
})

test("a secret that cannot be read makes the webhook unavailable without showing the reason", async () => {
  await using api = await setupHooks({ secret: () => Promise.reject(new Error("AccessDenied for arn:aws:something")) })
  const { status, body } = await api.send("etl", "{}")
  expect([status, body.error!.message]).toEqual([503, "the secret of this webhook cannot be read now"])
})

test("a signed body that does not match the workflow's params is rejected", async () => {
  await using api = await setupHooks()
  expect((await api.send("etl", "[]")).status).toBe(400)
  expect((await api.send("etl", "{")).status).toBe(400)
  expect((await api.send("etl", '{"dya":1}')).body.error!.message).toContain('did you mean "day"')
})
