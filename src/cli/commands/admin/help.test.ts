import { expect, test } from "vitest"
import { commandLine } from "../../testing/command-line.ts"

test("help lists the commands in groups, and shows one command", async () => {
  await using world = await commandLine()
  const { code, stdout } = await world.ork("help")
  const headings = [...stdout.matchAll(/^(\S.*):$/gm)].map(([, heading]) => heading)
  expect([code, headings]).toEqual([
    0,
    ["Options", "Runs", "Workflows", "Jobs and queues", "Servers and workers", "Administration"],
  ])
  expect(stdout).toMatch(/^Runs:\n {2}run /m)
  expect((await world.ork("help", "jobs", "submit")).stdout).toBe((await world.ork("jobs", "submit", "--help")).stdout)
  const unknown = await world.ork("help", "lgos")
  expect([unknown.code, unknown.stderr]).toEqual([2, "ork: there is no command lgos; did you mean logs?\n"])
})

test("version shows the version, like --version", async () => {
  await using world = await commandLine()
  expect((await world.ork("version")).stdout).toBe("ork 0.0.0\n")
  expect((await world.ork("--version")).stdout).toBe("ork 0.0.0\n")
  expect(await world.json("version")).toEqual({ version: "0.0.0" })
})
