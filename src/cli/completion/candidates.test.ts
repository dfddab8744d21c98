import { expect, test } from "vitest"
import { commandLine, runMain } from "../testing/command-line.ts"

test.each([
  [["tri"], ["trigger"]],
  [
    ["trigger", ""],
    ["etl", "two"],
  ],
  [["trigger", "e"], ["etl"]],
  [["pause", "t"], ["two"]],
  [
    ["jobs", "s"],
    ["show", "submit"],
  ],
  [
    ["jobs", "--prio"],
    ["--priority-max", "--priority-min"],
  ],
  [
    ["jobs", "--status", "R"],
    ["READY", "RUNNING"],
  ],
  [["runs", "--workflow", "tw"], ["two"]],
  [["trigger", "etl", "--wa"], ["--wait"]],
  [
    ["keys", "create", "x", "--scope", "a"],
    ["admin", "author"],
  ],
  [["completion", "z"], ["zsh"]],
  [["deploy", "x"], [":files"]],
  [["deploy", "x.yaml", ""], [":files"]],
  [["trigger", "etl", "--params-file", ""], [":files"]],
  [["nonsense", ""], []],
])("%j is completed by %j", async (words, expected) => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "true" })
  await world.api.deploy("two", { a: "true" })
  const { code, stdout } = await world.ork("__complete", "--", ...words)
  expect([code, stdout.split("\n").filter((word) => word !== "")]).toEqual([0, expected])
})

test("runs are completed by id; without a server only `latest` is", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "true" })
  const id = await world.api.runToEnd("etl")
  expect((await world.ork("__complete", "--", "show", "")).stdout).toBe(`${id}\netl#1\nlatest\n`)
  await world.file(".ork/server.json", "{}")
  expect((await runMain(["__complete", "--", "show", ""], { cwd: world.cwd, env: { ORK_PORT: "9" } })).stdout).toBe("latest\n")
})

test("tasks are completed by the graph of the run that was typed", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { load: "true", report: "true" })
  await world.api.runToEnd("etl")
  const complete = async (...words: string[]) => (await world.ork("__complete", "--", ...words)).stdout
  expect(await complete("logs", "latest", "")).toBe("load\nreport\n")
  expect(await complete("retry", "latest", "--from", "r")).toBe("report\n")
  expect(await complete("explain", "latest", "l")).toBe("load\n")
})

test("completion prints a script for each supported shell and rejects others", async () => {
  await using world = await commandLine()
  for (const shell of ["bash", "zsh", "fish"])
    expect((await world.ork("completion", shell)).stdout).toContain("ork __complete --")
  expect((await world.ork("completion", "tcsh")).code).toBe(2)
})
