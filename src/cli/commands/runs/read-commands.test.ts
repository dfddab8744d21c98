import { readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { expect, test } from "vitest"
import { commandLine, runMain } from "../../testing/command-line.ts"
import { having, including, matching } from "../../../../test/support/matchers.ts"

test("runs, show and logs read from the server", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "echo one;echo two", each: { command: "echo x", foreach: [1, 2] } })
  const id = await world.api.runToEnd("etl")
  expect((await world.ork("runs")).stdout).toMatch(new RegExp(`✓ success +${id} +etl#1 .* 3/3\n`))
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

test("logs without a task prints all logs in the order of the graph with names in front; -n prints the last lines", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", {
    z: "echo one;echo two;echo three",
    each: { foreach: ["x", "y"], depends_on: ["z"], command: "echo in an instance" },
    a: { depends_on: ["each"], command: "echo last" },
  })
  const id = await world.api.runToEnd("etl")
  expect((await world.ork("logs", id)).stdout).toBe(
    "z    | one\nz    | two\nz    | three\neach[0] x | in an instance\neach[1] y | in an instance\na    | last\n",
  )
  expect((await world.ork("logs", id, "-n", "1")).stdout).toBe(
    "z    | three\neach[0] x | in an instance\neach[1] y | in an instance\na    | last\n",
  )
  expect((await world.ork("logs", id, "z", "-n", "2")).stdout).toBe("two\nthree\n")
  expect((await world.ork("logs", id, "-f")).stdout.split("\n").toSorted()).toHaveLength(7)
  const lines = (await world.ork("logs", id, "--json")).stdout.trim().split("\n")
  expect(JSON.parse(lines[3]!)).toMatchObject({ task: "each", path: "0", stream: "stdout", line: "in an instance" })
  expect((await world.ork("logs", id, "--attempt", "1")).stderr).toMatch(/name it after the run/)
})

test("runs shows the trigger and the logical date, in the zone of the terminal", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { a: "true" })
  await world.ork("trigger", "etl", "--logical-date", "2026-01-31T23:30:00Z", "--wait")
  const { stdout } = await runMain(["runs"], { cwd: world.cwd, env: { TZ: "Europe/Berlin" } })
  expect(stdout).toMatch(/trigger +logical date +created \(GMT\+[12]\)/)
  expect(stdout).toMatch(/ etl#1 +manual +2026-02-01 00:30:00 /)
})

test("show prints failures first, then the tasks in the order of the graph with each fan-out as one line", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", {
    z: "true",
    each: { foreach: [1, 2, 3], depends_on: ["z"], command: "fail" },
    a: { depends_on: ["each"], command: "true" },
  })
  const id = await world.api.runToEnd("etl")
  const names = (text: string): string[] => [...text.matchAll(/^[✓✗-] (\S+) /gm)].map(([, name]) => name!).slice(1)
  const { stdout } = await world.ork("show", id)
  expect(names(stdout)).toEqual(["each[0]", "each[1]", "each[2]", "z", "each", "a"])
  expect(stdout).toMatch(/^✗ each +failed .*3 instances$/m)
  expect(stdout).toMatch(`  log: ork logs ${id} each --path 0\n`)
  expect(names((await world.ork("show", id, "--instances")).stdout)).toEqual(["z", "each[0]", "each[1]", "each[2]", "a"])
})

test("runs and instances are accepted by their readable names", async () => {
  await using world = await commandLine()
  await world.api.deploy("etl", { each: { foreach: ["rome.csv", "oslo.csv"], command: "echo in an instance;fail" } })
  const id = await world.api.runToEnd("etl")
  for (const name of ["etl#1", "etl", id.slice(-8)]) expect(await world.json("show", name)).toMatchObject({ id, number: 1 })
  expect((await world.ork("show", "etl#1")).stdout).toMatch(/^✗ etl#1 version 1 failed[^]*^✗ each\[1\] oslo\.csv +failed/m)
  for (const task of ["each[1]", "each[oslo.csv]"])
    expect((await world.ork("logs", "etl", task)).stdout).toBe("in an instance\n")
  expect((await world.ork("logs", "etl", "each[bonn.csv]")).code).toBe(2)
  const plan = ["retry", "etl#1", "--task", "each[oslo.csv]", "--plan"]
  expect((await world.ork(...plan)).stdout).toMatch(/^again: each\[1\]/)
  expect((await world.ork("logs", "etl", "each[1]", "--index", "1")).stderr).toMatch(/leave out --index/)
})

test("artifacts are listed, written into a folder and printed", async () => {
  await using world = await commandLine()
  await world.api.deploy("files", {
    make: { command: "file out/a.txt hello;file out/b.txt bye", artifacts: "out/*" },
    each: { foreach: [1, 2], command: "file each.txt x", artifacts: "each.txt" },
    other: "true",
  })
  await world.api.runToEnd("files")
  expect((await world.ork("artifacts", "latest")).stdout).toMatch(
    /make +out\/a.txt +5 bytes\n.*each\[1\] +each.txt +1 bytes\n/s,
  )
  expect(await world.json("artifacts", "latest", "each[1]")).toEqual([{ task: "each", path: "1", file: "each.txt", bytes: 1 }])
  expect((await world.ork("artifacts", "latest", "make", "--print", "out/a.txt")).stdout).toBe("hello")
  expect((await world.ork("artifacts", "latest", "make", "--print", "c.txt")).stderr).toMatch(/has no artifact c\.txt/)
  expect((await world.ork("artifacts", "latest", "-o", "files")).stdout).toContain("wrote files/each/1/each.txt\n")
  expect(await readFile(join(world.cwd, "files/make/out/b.txt"), "utf8")).toBe("bye")
  expect((await world.ork("artifacts", "latest", "other")).stdout).toBe("no artifacts\n")
  expect((await world.ork("artifacts", "latest", "each")).stderr).toMatch(/several instances; select one with --index N/)
  expect((await world.ork("artifacts", "latest", "--print", "x")).stderr).toMatch(/name it after the run/)
})
