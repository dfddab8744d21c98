import { rm } from "node:fs/promises"
import { join } from "node:path"
import { expect, test } from "vitest"
import { commandLine, runMain } from "../testing/command-line.ts"
import { matching } from "../../../test/support/matchers.ts"

test("the error for a missing or wrong key names the options that set it", async () => {
  await using world = await commandLine()
  const wrong = await world.ork("workers", "--api-key", "not-the-key-of-this-server")
  expect([wrong.code, wrong.stderr]).toEqual([1, matching(/^ork: .*--api-key or ORK_API_KEY.*\n$/)])
  await rm(join(world.cwd, ".ork/admin.key"))
  expect((await world.ork("workers")).stderr).toMatch(/ORK_API_KEY/)
  const by = { ORK_URL: world.url, ORK_API_KEY: "the-admin-key-of-tests" }
  expect((await runMain(["workers"], { cwd: world.cwd, env: by })).code).toBe(0)
})

test("the folder's key is not sent to a remote server", async () => {
  await using world = await commandLine()
  const { serverAddress, loadServerConfig } = await import("./connect.ts")
  const context = { cwd: world.cwd, env: {} } as never
  const keyFor = async (url: string) => (await serverAddress(context, await loadServerConfig(context, { url }))).key
  expect(await keyFor("http://localhost:4000")).toBe("the-admin-key-of-tests")
  expect(await keyFor("https://ork.example.com")).toBeNull()
})

test("the error for an unreachable server names the command that starts one", async () => {
  await using world = await commandLine()
  await rm(join(world.cwd, ".ork/server.json"))
  const { code, stderr } = await runMain(["workers"], { cwd: world.cwd, env: { ORK_PORT: "9" } })
  expect([code, stderr]).toEqual([1, matching(/^ork: no server responds at http:\/\/127\.0\.0\.1:9: .*`ork serve`.*\n$/)])
})
