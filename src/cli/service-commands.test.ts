import { rm } from "node:fs/promises"
import { join } from "node:path"
import { expect, test } from "vitest"
import { commandLine, runMain } from "./testing/command-line.ts"
import { containing, matching } from "../../test/support/matchers.ts"

// -- jobs, queues, workers, keys ---------------------------------------------------------------------------------------------------

test("jobs are submitted, listed by filters, shown and cancelled", async () => {
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

test("queues get limits, keep what is not named, and are listed", async () => {
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

test("a key is printed once, works with its scope alone, and is out when it is revoked", async () => {
  await using world = await commandLine()
  const made = await world.ork("keys", "create", "ci", "--scope", "read")
  expect(made.stdout).toMatch(/^ork_\w+\n$/)
  expect(made.stderr).toMatch(/^ork: key \S+ \(read\); it is shown this once/)
  const key = ["--api-key", made.stdout.trim()]
  expect((await world.ork("runs", ...key)).code).toBe(0)
  const denied = await world.ork("keys", ...key)
  expect([denied.code, denied.stderr]).toEqual([1, containing("admin")])
  const [listed] = (await world.json("keys")) as { id: string; name: string }[]
  expect(listed).toMatchObject({ name: "ci", scopes: ["read"] })
  expect((await world.ork("keys")).stdout).not.toContain(made.stdout.trim())
  expect((await world.ork("keys", "revoke", listed!.id)).code).toBe(0)
  expect((await world.ork("runs", ...key)).code).toBe(1)
})

// -- which server ----------------------------------------------------------------------------------------------------------------

test("without a key, and with a wrong one, it says what to do", async () => {
  await using world = await commandLine()
  const wrong = await world.ork("workers", "--api-key", "not-the-key-of-this-server")
  expect([wrong.code, wrong.stderr]).toEqual([1, matching(/^ork: .*--api-key or ORK_API_KEY.*\n$/)])
  await rm(join(world.cwd, ".ork/admin.key"))
  expect((await world.ork("workers")).stderr).toMatch(/ORK_API_KEY/)
  const by = { ORK_URL: world.url, ORK_API_KEY: "the-admin-key-of-tests" }
  expect((await runMain(["workers"], { cwd: world.cwd, env: by })).code).toBe(0)
})

test("the folder's key is not shown to a server elsewhere", async () => {
  await using world = await commandLine()
  const { serverAddress, loadServerConfig } = await import("./target/connect.ts")
  const context = { cwd: world.cwd, env: {} } as never
  const keyFor = async (url: string) => (await serverAddress(context, await loadServerConfig(context, { url }))).key
  expect(await keyFor("http://localhost:4000")).toBe("the-admin-key-of-tests")
  expect(await keyFor("https://ork.example.com")).toBeNull()
})

test("without a server, its commands say how to get one", async () => {
  await using world = await commandLine()
  await rm(join(world.cwd, ".ork/server.json"))
  const { code, stderr } = await runMain(["workers"], { cwd: world.cwd, env: { ORK_PORT: "9" } })
  expect([code, stderr]).toEqual([1, matching(/^ork: no server answers at http:\/\/127\.0\.0\.1:9: .*`ork serve`.*\n$/)])
})

test("doctor tells whether the server answers and takes the key", async () => {
  await using world = await commandLine()
  const checks = JSON.parse((await world.ork("doctor", "--json")).stdout) as { name: string; state: string; detail: string }[]
  const check = (name: string) => checks.find((each) => each.name === name)
  expect(check("server")).toEqual({ name: "server", state: "ok", detail: `${world.url}: version 1.2.3` })
  expect(check("key")).toMatchObject({ state: "ok" })
  const wrong = await world.ork("doctor", "--api-key", "not-the-key-of-this-server")
  expect([wrong.code, wrong.stdout]).toEqual([1, matching(/^fail key /m)])
})
