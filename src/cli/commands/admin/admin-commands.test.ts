import { type AddressInfo, createServer } from "node:net"
import { expect, test } from "vitest"
import { commandLine } from "../../testing/command-line.ts"
import { containing, matching } from "../../../../test/support/matchers.ts"

test("jobs are submitted, listed with filters, shown and cancelled", async () => {
  await using world = await commandLine()
  const submitted = await world.ork("jobs", "submit", "mail", "--queue", "out", "--payload", '{"to":"x"}', "--priority", "9")
  const [id, status] = submitted.stdout.trim().split(" ")
  expect(status).toBe("READY")
  const next = (await world.json("jobs", "submit", "next", "--queue", "out", "--after", id!)) as { id: string }
  expect(next).toMatchObject({ status: "PENDING", dependencies: [id] })
  await world.file("jobs.yaml", "- { name: x, queue: other }\n- { name: y, queue: other, task: { command: echo y } }\n")
  expect((await world.ork("jobs", "submit", "--file", "jobs.yaml")).stdout).toMatch(/^(\S+ READY\n){2}$/)
  expect((await world.ork("jobs", "--queue", "out", "--priority-min", "9")).stdout).toMatch(
    new RegExp(`^job .*\n${id} +READY +out +9 +0/3 +.* mail\n$`),
  )
  expect(await world.json("jobs", "--status", "pending")).toMatchObject([{ id: next.id }])
  expect(await world.json("jobs", "--limit", "1")).toHaveLength(1)
  expect((await world.ork("jobs", "show", id!)).stdout).toMatch(/^mail READY\n(.*\n)* {2}payload {3}\{"to":"x"\}\n$/)
  expect((await world.ork("jobs", "logs", id!)).stdout).toBe("")
  expect((await world.ork("jobs", "cancel", id!)).stdout).toBe(`job ${id} is cancelled\n`)
  expect((await world.ork("jobs", "cancel", id!)).code).toBe(1)
})

test("limits of a queue are set one by one; limits that are not named keep their value", async () => {
  await using world = await commandLine()
  expect((await world.ork("queues")).stdout).toMatch(/^no queues/)
  await world.ork("queues", "set", "mail", "--concurrency", "4", "--rate", "10/1m")
  expect(await world.json("queues", "set", "mail", "--pause")).toMatchObject({
    concurrency: 4,
    rate_limit: { limit: 10, period_seconds: 60 },
    paused: true,
  })
  expect((await world.ork("queues")).stdout).toMatch(/mail +0 +0 +4 +10 per 1m00s +paused\n$/)
  expect(await world.json("queues", "set", "mail", "--resume", "--concurrency", "none", "--rate", "none")).toMatchObject({
    concurrency: null,
    rate_limit: null,
    paused: false,
  })
})

test("workers are listed", async () => {
  await using world = await commandLine()
  expect((await world.ork("workers")).stdout).toMatch(/^worker .*\n\S+ +server +alive .* test\n$/)
})

test("a key is printed once, grants only its scope, and is invalid after it was revoked", async () => {
  await using world = await commandLine()
  const created = await world.ork("keys", "create", "ci", "--scope", "read")
  expect(created.stdout).toMatch(/^ork_\w+\n$/)
  expect(created.stderr).toMatch(/^ork: key \S+ \(read\); it cannot be shown again/)
  const key = ["--api-key", created.stdout.trim()]
  expect((await world.ork("runs", ...key)).code).toBe(0)
  const denied = await world.ork("keys", ...key)
  expect([denied.code, denied.stderr]).toEqual([1, containing("admin")])
  const [listed] = (await world.json("keys")) as { id: string; name: string }[]
  expect(listed).toMatchObject({ name: "ci", scopes: ["read"] })
  expect((await world.ork("keys")).stdout).not.toContain(created.stdout.trim())
  expect((await world.ork("keys", "revoke", listed!.id)).code).toBe(0)
  expect((await world.ork("runs", ...key)).code).toBe(1)
})
test("doctor checks whether the server responds and accepts the key", async () => {
  await using world = await commandLine()
  const checks = JSON.parse((await world.ork("doctor", "--json")).stdout) as { name: string; state: string; detail: string }[]
  const check = (name: string) => checks.find((each) => each.name === name)
  expect(check("server")).toEqual({ name: "server", state: "ok", detail: `${world.url}: version 1.2.3` })
  expect(check("key")).toMatchObject({ state: "ok" })
  const wrong = await world.ork("doctor", "--api-key", "not-the-key-of-this-server")
  expect([wrong.code, wrong.stdout]).toEqual([1, matching(/^fail key /m)])
})

test("doctor checks whether the SMTP server of the settings can be reached", async () => {
  await using world = await commandLine()
  expect((await world.ork("doctor")).stdout).not.toContain("smtp")
  const listener = createServer()
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve))
  const { port } = listener.address() as AddressInfo
  await new Promise((resolve) => listener.close(resolve))
  await world.file("ork.yaml", `smtp: smtp://127.0.0.1:${port}\n`)
  const refused = await world.ork("doctor")
  expect([refused.code, refused.stdout]).toEqual([
    1,
    matching(new RegExp(`^fail smtp +127\\.0\\.0\\.1:${port}: .*ECONNREFUSED`, "m")),
  ])
})

test("the audit log is listed, exported and verified", async () => {
  await using world = await commandLine()
  for (const name of ["one", "two", "three"]) await world.ork("keys", "create", name, "--scope", "read")
  expect((await world.ork("audit", "--limit", "1")).stdout).toMatch(/admin +127\.0\.0\.1 +ok +key\.create +\S+ +read\n$/)
  const exported = (await world.ork("audit", "export")).stdout
  expect(exported.trim().split("\n")).toHaveLength(3)
  await world.file("whole.ndjson", exported)
  expect((await world.ork("audit", "verify")).stdout).toMatch(/^the chain is unbroken: entries 3, last 3, hash [0-9a-f]{64}\n$/)
  expect((await world.ork("audit", "verify", "--file", "whole.ndjson")).code).toBe(0)
  await world.file("changed.ndjson", exported.replace(/"target":"[^"]*"(?=[^\n]*\n[^\n]*\n$)/, '"target":"other"'))
  const changed = await world.ork("audit", "verify", "--file", "changed.ndjson")
  expect([changed.code, changed.stderr]).toEqual([1, containing("entry 2 does not continue the chain")])
})
