import { expect, test } from "vitest"
import { setup } from "../testing/setup.ts"
import { hostMatcher } from "./host-check.ts"

test.each([
  ["localhost:4000", true],
  ["127.0.0.1", true],
  ["10.1.2.3:4000", true],
  ["[::1]:4000", true],
  ["server-1:4000", true],
  ["ork.jobs.svc.cluster.local", true],
  ["ORK.example.com.", true],
  ["a.internal.example.com", true],
  ["evil.example", false],
  ["127.0.0.1.evil.example", false],
  ["localhost.evil.example:4000", false],
  ["example.com", false],
  ["", false],
])("the host %s is accepted: %s", (host, accepted) => {
  expect(hostMatcher(["ork.example.com", "*.internal.example.com"])(host)).toBe(accepted)
})

test("a request for another host is rejected on every route, with or without a key", async () => {
  await using api = await setup({ config: { url: "https://ork.example.com" } })
  for (const path of ["/runs", "/health", "/ui/", "/openapi.json", "/nowhere"]) {
    const { status, body } = await api.call("GET", path, { headers: { host: "evil.example:4000" } })
    expect([status, body.error?.message]).toEqual([403, expect.stringContaining("this server is not evil.example")])
  }
  expect((await api.call("GET", "/runs", { headers: { host: "ork.example.com" } })).status).toBe(200)
})
