// Commands that read runs, and commands that need no run.

import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { containing, having, including, matching } from "../support/matchers.ts"
import { startOrk } from "../support/ork-process.ts"
import { ork, orkRun, temporaryFolder } from "../support/ork.ts"

const FLOW = `
name: w
tasks:
  a:
    retry: { max_attempts: 2, backoff: fixed, base_delay: 1ms }
    command: echo "attempt $ORK_ATTEMPT"; echo oops >&2; test $ORK_ATTEMPT = 2
  each:
    foreach: [x, y]
    command: echo "\${{ item }}"
`

const setup = async (): Promise<{ cwd: string; id: string }> => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "flow.yaml"), FLOW)
  const { run } = await orkRun(["flow.yaml"], { cwd })
  return { cwd, id: run.id }
}

const json = async (args: string[], cwd: string): Promise<unknown> =>
  JSON.parse((await ork([...args, "--json"], { cwd })).stdout)

test("runs lists runs, newest first, filtered by workflow and status", async () => {
  const { cwd, id } = await setup()
  writeFileSync(join(cwd, "other.yaml"), "name: other\ntasks:\n  a: { command: exit 1 }\n")
  const { run: other } = await orkRun(["other.yaml"], { cwd })
  expect(await json(["runs"], cwd)).toMatchObject([{ id: other.id }, { id, workflow: "w", status: "success" }])
  expect(await json(["runs", "--status", "failed"], cwd)).toMatchObject([{ id: other.id }])
  expect(await json(["runs", "--workflow", "w"], cwd)).toMatchObject([{ id }])
  expect(await json(["runs", "--limit", "1"], cwd)).toHaveLength(1)
  const { stdout } = await ork(["runs"], { cwd })
  expect(stdout.split("\n")).toEqual([
    matching(/^ +status +run +workflow/),
    matching(new RegExp(`^✗ failed +${other.id} +other#1 .* 1/1$`)),
    matching(new RegExp(`^✓ success +${id} +w#1 .* 3/3$`)),
    "",
  ])
})

test("show prints the run and every task with its attempts", async () => {
  const { cwd, id } = await setup()
  const shown = (await json(["show", "latest"], cwd)) as { task_list: { name: string; index: number | null }[] }
  expect(shown).toMatchObject({ id, status: "success", tasks: { success: 3 } })
  const a = shown.task_list.find((task) => task.name === "a")
  expect(a).toMatchObject({
    run_id: id,
    index: null,
    path: "",
    status: "success",
    attempt: 2,
    max_attempts: 2,
    exit_code: 0,
    attempts: [
      { attempt: 1, status: "failed", exit_code: 1, error: "exit code 1" },
      { attempt: 2, status: "success", exit_code: 0 },
    ],
  })
  expect(shown.task_list.filter((task) => task.name === "each").map((task) => task.index)).toEqual([0, 1])
  const { stdout } = await ork(["show", id.slice(0, 13)], { cwd })
  expect(stdout).toMatch(/^✓ w#1 version 1 success in /)
  expect(stdout).toMatch(/^✓ each +success .* 2 instances$/m)
  expect((await ork(["show", id, "--instances"], { cwd })).stdout).toMatch(/^✓ each\[1\] y +success/m)
  expect(stdout).toMatch(/^ +attempt 1 failed .*exit code 1/m)
})

test("logs prints the latest attempt, another attempt, an instance, or lines with time and stream", async () => {
  const { cwd } = await setup()
  const logs = async (...args: string[]): Promise<string> => (await ork(["logs", "latest", ...args], { cwd })).stdout
  expect(await logs("a")).toContain("attempt 2\n")
  expect(await logs("a", "--attempt", "1")).toContain("attempt 1\n")
  expect(await logs("each", "--index", "1")).toBe("y\n")
  const line = (await logs("a", "--json")).split("\n").map((text) => (text === "" ? null : (JSON.parse(text) as unknown)))
  expect(line).toContainEqual({ at: matching(/Z$/), stream: "stderr", line: "oops" })
})

describe("a read command with invalid arguments", () => {
  let cwd: string

  beforeAll(async () => {
    cwd = mkdtempSync(join(tmpdir(), "ork-test-"))
    writeFileSync(join(cwd, "flow.yaml"), FLOW)
    await ork(["run", "flow.yaml"], { cwd })
  })

  afterAll(() => rmSync(cwd, { recursive: true, force: true }))

  test.each([
    [["logs", "latest", "each"], "task each has several instances; select one with --index N"],
    [["logs", "latest", "each", "--index", "2"], "has no instance 2"],
    [["logs", "latest", "eech"], "did you mean each?"],
    [["logs", "latest", "a", "--attempt", "3"], "has no attempt 3; there were 2"],
    [["logs", "latest", "a", "--index", "x"], '--index: "x" is not a whole number'],
    [["show", "ffffffff"], "there is no run ffffffff"],
    [["show", "01a1dd3a-3d9d-766c-92dd-29bd077c39b0"], "there is no run 01a1dd3a"],
    [["runs", "--status", "faild"], "did you mean failed?"],
    [["gc"], "choose what to remove"],
    [["gc", "--older-than", "long"], '--older-than: "long" is not seconds'],
  ])("%j is rejected with exit code 2", async (args, message) => {
    const { code, stderr, stdout } = await ork(args, { cwd })
    expect([code, stdout, stderr]).toEqual([2, "", containing(message)])
  })
})

test("logs -f follows a task of another process until it finishes", async () => {
  const cwd = temporaryFolder()
  const command = "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two"
  writeFileSync(join(cwd, "flow.yaml"), `name: w\ntasks:\n  a:\n    command: ${JSON.stringify(command)}\n`)
  const run = startOrk(["run", "flow.yaml"], { cwd })
  await run.printed(/a running/)
  const follow = startOrk(["logs", "latest", "a", "-f"], { cwd })
  await follow.printed(/one\n/)
  writeFileSync(join(cwd, "go"), "")
  expect(await follow.exit).toEqual({ code: 0, signal: null })
  expect(follow.stdout).toBe("one\ntwo\n")
  expect((await run.exit).code).toBe(0)
})

test("read commands report that there are no runs yet, and create nothing", async () => {
  const cwd = temporaryFolder()
  for (const args of [["runs"], ["show", "latest"], ["logs", "latest", "a"], ["gc", "--keep", "1"]]) {
    const { code, stderr } = await ork(args, { cwd })
    expect([code, stderr]).toEqual([2, containing("there are no runs in sqlite:.ork/ork.db yet")])
  }
  expect(readdirSync(cwd)).toEqual([])
})

test("gc removes old runs with their objects", async () => {
  const { cwd, id } = await setup()
  const { run } = await orkRun(["flow.yaml"], { cwd })
  expect((await ork(["gc", "--older-than", "1d"], { cwd })).stdout).toBe("removed 0 runs\n")
  expect((await ork(["gc", "--keep", "1"], { cwd })).stdout).toBe("removed 1 run\n")
  expect(await json(["runs"], cwd)).toMatchObject([{ id: run.id }])
  const objects = join(cwd, ".ork/objects/runs")
  expect([existsSync(join(objects, id)), existsSync(join(objects, run.id))]).toEqual([false, true])
  expect(await json(["gc", "--older-than", "0s"], cwd)).toEqual({ removed: 1, jobs: 0, bundles: 0 })
})

test("worker profiles of ork.yaml apply to run and validate, and problems with them are reported", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "flow.yaml"), "name: w\ntasks:\n  a: { worker: kept, command: echo $PLACE }\n")
  const { code, stderr } = await ork(["validate", "flow.yaml"], { cwd })
  expect([code, stderr]).toEqual([
    2,
    containing('flow.yaml:3:16: tasks.a.worker: there is no worker profile "kept"; none is configured'),
  ])
  writeFileSync(join(cwd, "ork.yaml"), "worker_profiles: { kept: { queue: heavy, env: { PLACE: here } } }\n")
  const { run } = await orkRun(["flow.yaml"], { cwd })
  expect(await json(["show", run.id], cwd)).toMatchObject({ task_list: [{ name: "a", queue: "heavy" }] })
  expect((await ork(["logs", run.id, "a"], { cwd })).stdout).toBe("here\n")
  writeFileSync(join(cwd, "ork.yaml"), "worker_profiles: { kept: { queue: 5 } }\n")
  const bad = await ork(["validate", "flow.yaml"], { cwd })
  expect([bad.code, bad.stderr]).toEqual([2, containing("worker_profiles.kept.queue")])
})

test("validate lists the problems of every file", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "good.yaml"), FLOW)
  writeFileSync(join(cwd, "bad.yaml"), "name: w\ntasks:\n  a: { comand: x }\n")
  const { code, stdout, stderr } = await ork(["validate", "good.yaml", "bad.yaml", "none.yaml"], { cwd })
  expect([code, stdout]).toEqual([2, "good.yaml: w is valid, 2 tasks\n"])
  expect(stderr).toMatch(/^ork: bad\.yaml:3:8: tasks\.a\.comand: .*did you mean "command"/m)
  expect(stderr).toMatch(/^ork: none\.yaml: there is no such file$/m)
  const result = await ork(["validate", "good.yaml", "bad.yaml", "--json"], { cwd })
  expect([result.code, result.stderr]).toEqual([2, ""])
  expect(JSON.parse(result.stdout)).toMatchObject([
    { file: "good.yaml", valid: true, workflow: "w", problems: [] },
    {
      file: "bad.yaml",
      valid: false,
      workflow: null,
      problems: including([having({ line: 3, column: 8, suggestion: "command" })]),
    },
  ])
  expect(existsSync(join(cwd, ".ork"))).toBe(false)
})

test("graph prints three formats and rejects others", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "flow.yaml"), "name: w\ntasks:\n  a: { command: x }\n  b: { depends_on: [a], command: x }\n")
  const graph = async (...args: string[]): Promise<string> => (await ork(["graph", "flow.yaml", ...args], { cwd })).stdout
  expect(await graph()).toMatch(/^w\n.*a\n.*b +← a\n$/)
  expect(await graph("--format", "mermaid")).toMatch(/^flowchart /)
  expect(await graph("--format", "dot")).toMatch(/^digraph "w" \{/)
  const bad = await ork(["graph", "flow.yaml", "--format", "mermad"], { cwd })
  expect([bad.code, bad.stderr]).toEqual([2, 'ork: --format: there is no format "mermad"; did you mean mermaid?\n'])
})

test("doctor reports what this machine offers and whether the stores work", async () => {
  const { cwd } = await setup()
  const checks = (await json(["doctor"], cwd)) as { name: string; state: string; detail: string }[]
  expect(checks.map(({ name }) => name)).toEqual(
    including(["ork", "node", "platform", "sqlite", "spawn", "isolation", "cgroups", "database", "objects"]),
  )
  expect(checks.map(({ name }) => name)).toEqual(including(["python", "docker", "kubernetes", "slurm"]))
  expect(checks.filter(({ state }) => state === "fail")).toEqual([])
  writeFileSync(join(cwd, "file"), "")
  const broken = await ork(["doctor"], { cwd, env: { ORK_OBJECT_STORE: "file:file/objects" } })
  expect([broken.code, broken.stdout]).toEqual([1, matching(/^fail objects .*cannot be used/m)])
})
