import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import { expect, test } from "vitest"
import { commandLine, runMain } from "../../testing/command-line.ts"
import { having, matching } from "../../../../test/support/matchers.ts"
import { parseDefinition } from "../../../definition/parse.ts"

test("workflows lists deployed workflows with their latest runs and next tick", async () => {
  await using world = await commandLine()
  expect((await world.ork("workflows")).stdout).toBe("no workflows; deploy one with `ork deploy FILE`\n")
  await world.api.deploy("etl", { a: "true" }, { schedule: "0 2 * * *", tags: ["sales"] })
  await world.api.deploy("bad", { a: "fail" })
  await world.api.runToEnd("etl")
  await world.api.runToEnd("bad")
  const { stdout } = await world.ork("workflows")
  expect(stdout.split("\n")).toEqual([
    matching(/^workflow +version +latest runs +last run +starts +tags$/),
    matching(/^bad +1 +✗ +\S+ \S+$/),
    matching(/^etl +1 +✓ +\S+ \S+ +\S+ 02:00:00 +sales$/),
    "",
  ])
  expect(await world.json("workflows", "--tag", "sales")).toEqual([having({ name: "etl" })])
})

test("delete removes a workflow and keeps its runs, or removes a run", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "true" })
  const id = await world.api.runToEnd("etl")
  expect((await world.ork("delete", "etl")).stdout).toBe("workflow etl is deleted; its runs are kept\n")
  expect((await world.ork("delete", "etl")).code).toBe(2)
  expect((await world.ork("delete", id)).stdout).toBe(`run ${id} is deleted\n`)
  expect((await world.ork("show", id)).code).toBe(2)
})

test("open prints a link that signs a browser in once and shows the named run or workflow", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "true" })
  const id = await world.api.runToEnd("etl")
  const link = async (...args: string[]) => (await world.ork("open", ...args)).stdout.trim()
  const follow = (url: string) => fetch(url, { redirect: "manual" })
  const first = await link()
  const signedIn = await follow(first)
  expect([signedIn.status, signedIn.headers.get("location")]).toEqual([303, "/ui/"])
  expect(signedIn.headers.get("set-cookie")).toMatch(/^ork_session=\w+/)
  expect((await follow(first)).status).toBe(401)
  expect((await follow(await link("etl"))).headers.get("location")).toBe("/ui/workflows/etl")
  expect((await follow(await link("latest"))).headers.get("location")).toBe(`/ui/runs/${id}`)
  expect((await world.ork("open", "nothing")).stderr).toMatch(/there is no workflow nothing; did you mean|there are etl/)
})

test("a sign-in link gives the scopes of the key that created it, and leads to no other site", async () => {
  await using world = await commandLine()
  const key = await world.api.newKey("read")
  const created = await world.api.call("POST", "/sign-in-links", { key, body: { page: "/ui/runs" } })
  expect(created.status).toBe(201)
  const signedIn = await world.api.call("GET", created.body["path"] as string, { key: null })
  const cookie = String(signedIn.headers["set-cookie"]).split(";")[0]!
  const session = await world.api.call("GET", "/session", { key: null, headers: { cookie } })
  expect(session.body["scopes"]).toEqual(["read"])
  const again = await world.api.call("POST", "/sign-in-links", { key: null, headers: { cookie } })
  expect(again.status).toBe(403)
  for (const page of ["https://example.com", "//example.com", "/ui/../x?y", "/ui/\\example.com"]) {
    expect((await world.api.call("POST", "/sign-in-links", { key, body: { page } })).status).toBe(400)
  }
})

test("init creates a workflow that is valid, and changes no file that exists", async () => {
  await using world = await commandLine()
  const { code, stdout } = await world.ork("init", "nightly")
  expect([code, stdout]).toEqual([0, matching(/created nightly\/hello\.yaml[^]*ork run hello\.yaml/)])
  const folder = join(world.cwd, "nightly")
  expect((await readdir(folder)).toSorted()).toEqual([".gitignore", ".ork-schema.json", "hello.yaml"])
  const text = await readFile(join(folder, "hello.yaml"), "utf8")
  expect(parseDefinition(text)).toMatchObject({ ok: true, workflow: { name: "hello" } })
  await world.file("nightly/hello.yaml", "mine\n")
  expect((await world.ork("init", "nightly")).stdout).toMatch(/^kept nightly\/hello\.yaml$/m)
  expect(await readFile(join(folder, "hello.yaml"), "utf8")).toBe("mine\n")
})

test("schema prints a JSON Schema with every field of a workflow", async () => {
  await using world = await commandLine()
  const schema = JSON.parse((await world.ork("schema")).stdout) as { properties: object }
  expect(Object.keys(schema.properties)).toEqual(expect.arrayContaining(["name", "tasks", "schedule", "params"]))
})

test("secrets lists the names that definitions use and whether this machine has them, never a value", async () => {
  await using world = await commandLine()
  await world.file(
    "etl.yaml",
    "name: etl\nwebhook: { secret: HOOK }\ntasks:\n  a: { command: x, env: { TOKEN: { secret: API_TOKEN } } }\n",
  )
  const env = { ORK_SECRET_API_TOKEN: "value-of-the-token" }
  const missing = await runMain(["secrets"], { cwd: world.cwd, env })
  expect([missing.code, missing.stdout]).toEqual([
    1,
    matching(/^API_TOKEN +etl +found\nHOOK +etl +missing: set ORK_SECRET_HOOK/m),
  ])
  expect(missing.stdout).not.toContain("value-of")
  const all = await runMain(["secrets", "etl.yaml", "--json"], { cwd: world.cwd, env: { ...env, ORK_SECRET_HOOK: "x" } })
  expect([all.code, JSON.parse(all.stdout)]).toEqual([
    0,
    [having({ name: "API_TOKEN" }), having({ name: "HOOK", state: "found" })],
  ])
})
