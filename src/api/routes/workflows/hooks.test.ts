import { expect, test } from "vitest"
import { signatureOf } from "../../../protocol/wire/signature.ts"
import { setup } from "../../testing/setup.ts"

const setupHooks = async (change: Parameters<typeof setup>[0] = {}) => {
  const api = await setup(change)
  await api.deploy("etl", { a: "true" }, { webhook: { secret: "HOOK" }, params: { day: "monday" } })
  await api.deploy("closed", { a: "true" })
  await api.deploy("unset", { a: "true" }, { webhook: { secret: "OTHER" } })
  const send = (
    name: string,
    body: string,
    change: { age?: number; at?: string; signature?: string; secret?: string; name?: string } = {},
  ) => {
    const timestamp = change.at ?? String(Math.floor(Date.now() / 1000) - (change.age ?? 0))
    const signature =
      change.signature ?? signatureOf(change.secret ?? "hook-secret", timestamp, `${change.name ?? name}.${body}`)
    const headers = { "content-type": "application/json", "x-ork-timestamp": timestamp, "x-ork-signature": signature }
    return api.call("POST", `/hooks/${name}`, { key: null, body, headers })
  }
  return Object.assign(api, { send })
}

test("a signed message triggers a run with its body as params, and a repeated message returns the same run", async () => {
  await using api = await setupHooks()
  const body = '{"day":"tuesday"}'
  const at = String(Math.floor(Date.now() / 1000))
  const first = await api.send("etl", body, { at })
  expect([first.status, first.body["trigger"], first.body["params"]]).toEqual([201, "webhook", { day: "tuesday" }])
  const again = await api.send("etl", body, { at })
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

test("an unknown name, a workflow without a webhook and an unset secret get the response of a wrong signature", async () => {
  await using api = await setupHooks()
  const wrong = await api.send("etl", "{}", { secret: "wrong" })
  for (const name of ["closed", "nothing", "unset"]) {
    const { status, text } = await api.send(name, "{}")
    expect([status, text]).toEqual([401, wrong.text])
  }
  expect((await api.send("unset", "{}", { secret: "" })).status).toBe(401)
})

test("a message for one webhook is not accepted by another with the same secret", async () => {
  await using api = await setupHooks()
  await api.deploy("other", { a: "true" }, { webhook: { secret: "HOOK" } })
  expect((await api.send("other", "{}", { name: "etl" })).status).toBe(401)
  expect((await api.send("other", "{}")).status).toBe(201)
})

test("a message is not accepted again after its run was deleted", async () => {
  await using api = await setupHooks()
  const at = String(Math.floor(Date.now() / 1000))
  const id = (await api.send("etl", "{}", { at })).body["id"] as string
  await api.engine.waitForRun(id as never)
  expect((await api.call("DELETE", `/runs/${id}`)).status).toBe(204)
  expect((await api.send("etl", "{}", { at })).status).toBe(409)
  expect((await api.call("GET", "/runs")).body["items"]).toEqual([])
})

test("messages of two secrets are accepted during a rotation", async () => {
  const secrets: Record<string, string> = { NEW: "new-secret", OLD: "old-secret" }
  await using api = await setupHooks({ secret: (name) => secrets[name] ?? null })
  await api.deploy("rotated", { a: "true" }, { webhook: { secret: ["NEW", "OLD"] } })
  expect((await api.send("rotated", "{ }", { secret: "new-secret" })).status).toBe(201)
  expect((await api.send("rotated", "{  }", { secret: "old-secret" })).status).toBe(201)
  delete secrets["OLD"]
  expect((await api.send("rotated", "{   }", { secret: "old-secret" })).status).toBe(401)
  expect((await api.send("rotated", "{    }", { secret: "new-secret" })).status).toBe(201)
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
