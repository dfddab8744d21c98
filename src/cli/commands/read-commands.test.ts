import { rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { expect, test } from "vitest"
import { commandLine } from "../testing/command-line.ts"
import { having, including, matching } from "../../../test/support/matchers.ts"

test("runs, show and logs read from the server", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "echo one;echo two", each: { command: "echo x", foreach: [1, 2] } })
  const id = await world.api.runToEnd("etl")
  expect((await world.ork("runs")).stdout).toMatch(new RegExp(`✓ success +${id} +etl .* 3/3\n`))
  expect(await world.json("runs", "--status", "failed")).toEqual([])
  expect(await world.json("runs", "--trigger", "manual", "--created-after", "2020-01-01")).toMatchObject([{ id }])
  expect(await world.json("runs", "--trigger", "schedule")).toEqual([])
  expect(await world.json("runs", "--created-before", "2020-01-01")).toEqual([])
  expect((await world.ork("show", id.slice(0, 30))).stdout).toMatch(/✓ a +success/)
  expect(await world.json("show", "latest")).toMatchObject({ id, task_list: including([having({ name: "a" })]) })
  expect((await world.ork("logs", "latest", "a")).stdout).toBe("one\ntwo\n")
  expect((await world.ork("logs", "latest", "each", "--index", "1")).stdout).toBe("x\n")
  const [line] = (await world.ork("logs", id, "a", "--json")).stdout.split("\n")
  expect(JSON.parse(line!)).toEqual({ at: matching(/Z$/), stream: "stdout", line: "one" })
  expect((await world.ork("logs", id, "each")).stderr).toMatch(/several instances; select one with --index N/)
  expect((await world.ork("logs", id, "eech")).stderr).toMatch(/did you mean each\?/)
  expect((await world.ork("logs", id, "a", "--attempt", "2")).code).toBe(2)
})

test("logs -f follows until the task ends", async () => {
  await using world = await commandLine()
  await world.api.deploy("slow", { a: "echo before;block;echo after" })
  const { stdout: id } = await world.ork("trigger", "slow")
  await world.api.executor.blocked("a")
  const followed = world.ork("logs", id.trim(), "a", "-f")
  world.api.executor.release("a")
  expect(await followed).toEqual({ code: 0, stdout: "before\nafter\n", stderr: "" })
})

test("without a live server of the folder, reading commands use the store; a named server takes precedence", async () => {
  await using world = await commandLine()
  await writeFile(join(world.cwd, ".ork/server.json"), JSON.stringify({ url: world.url, pid: 2 ** 30 }))
  expect((await world.ork("runs")).stderr).toMatch(/there are no runs in sqlite:/)
  await rm(join(world.cwd, ".ork/server.json"))
  expect((await world.ork("runs", "--url", world.url)).stdout).toBe("no runs\n")
  expect((await world.ork("runs", "--url", world.url, "--database-url", "sqlite:x.db")).stdout).toBe("no runs\n")
})

test("explain prints one sentence per task", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "true" })
  await world.api.runToEnd("etl")
  expect((await world.ork("explain", "latest", "a")).stdout).toBe("· a waits for its upstream\n")
  expect(await world.json("explain", "latest")).toMatchObject([{ task: "a", sentence: "a waits for its upstream" }])
})
