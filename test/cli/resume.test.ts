// `ork run --resume`: an interrupted run continues, a failed or cancelled one is retried, and successes are kept.

import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test, vi } from "vitest"
import { containing, having, matching } from "../support/matchers.ts"
import { processesOf, startOrk } from "../support/ork-process.ts"
import { ork, orkRun, temporaryFolder } from "../support/ork.ts"

const lines = (path: string): string[] => readFileSync(path, "utf8").trimEnd().split("\n")
const count = (all: string[], line: string): number => all.filter((each) => each === line).length

interface Shown {
  id: string
  status: string
  task_list: { name: string; status: string; attempt: number }[]
}

const show = async (cwd: string): Promise<Shown> =>
  JSON.parse((await ork(["show", "latest", "--json"], { cwd })).stdout) as Shown

/** Ten layers of twenty tasks, each with three upstream tasks. Every task records its start and its end. */
const graph = (): string => {
  const tasks = Array.from({ length: 200 }, (_, i) => {
    const layer = Math.floor(i / 20)
    const upstream = layer === 0 ? [] : [0, 7, 13].map((step) => `t${(layer - 1) * 20 + ((i + step) % 20)}`)
    return `  t${i}:\n    depends_on: [${upstream.join(", ")}]\n    command: echo start t${i} >> witness; sleep 0.05; echo end t${i} >> witness\n`
  })
  return `name: layers\ntasks:\n${tasks.join("")}`
}

test("after kill -9 in the middle of 200 tasks, every task is done, no success is repeated, and no process is left", async () => {
  const cwd = temporaryFolder()
  const witness = join(cwd, "witness")
  writeFileSync(join(cwd, "flow.yaml"), graph())
  const first = startOrk(["run", "flow.yaml"], { cwd })
  await first.printed(/t(9\d|1\d\d) success/)
  first.kill("SIGKILL")
  expect(await first.exit).toEqual({ code: null, signal: "SIGKILL" })

  const before = await show(cwd)
  await vi.waitFor(() => expect(processesOf(before.id)).toEqual([]), { timeout: 10_000 })
  expect(before.status).toBe("running")
  const done = before.task_list.filter((task) => task.status === "success").map((task) => task.name)
  expect(done.length).toBeGreaterThan(20)
  expect(done.length).toBeLessThan(200)

  const second = await orkRun(["--resume", "latest"], { cwd })
  expect([second.code, second.run.id, second.run.tasks["success"]]).toEqual([0, before.id, 200])
  expect(processesOf(before.id)).toEqual([])
  const written = lines(witness)
  for (let i = 0; i < 200; i++) expect(count(written, `end t${i}`), `t${i}`).toBeGreaterThan(0)
  for (const name of done) expect([name, count(written, `start ${name}`)]).toEqual([name, 1])
})

test("a failed run is retried: successes and successful instances are kept", async () => {
  const cwd = temporaryFolder()
  writeFileSync(
    join(cwd, "flow.yaml"),
    `
name: w
tasks:
  once: { command: echo once >> witness }
  each:
    depends_on: [once]
    foreach: [a, b, c]
    command: echo "\${{ item }}" >> witness; test "\${{ item }}" != b || test -e fixed
  last: { depends_on: [each], command: echo last >> witness }
`,
  )
  const first = await orkRun(["flow.yaml"], { cwd })
  expect([first.code, first.run.tasks]).toEqual([1, having({ success: 3, failed: 1, skipped: 1 })])
  writeFileSync(join(cwd, "fixed"), "")
  const second = await orkRun(["--resume", first.run.id.slice(0, 20)], { cwd })
  expect([second.code, second.run.id, second.run.tasks["success"]]).toEqual([0, first.run.id, 5])
  expect(lines(join(cwd, "witness")).toSorted()).toEqual(["a", "b", "b", "c", "last", "once"])

  const third = await ork(["run", "--resume", "latest"], { cwd })
  expect([third.code, third.stdout]).toEqual([0, matching(/^✓ w success in /)])
  expect(lines(join(cwd, "witness"))).toHaveLength(6)
})

test("a run that fails again exits with 1", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "flow.yaml"), "name: w\ntasks:\n  a: { command: exit 4 }\n")
  await ork(["run", "flow.yaml"], { cwd })
  const { code, stdout } = await ork(["run", "--resume", "latest"], { cwd })
  expect([code, stdout]).toEqual([1, containing("✗ a, attempt 2: exit code 4")])
})

test("a cancelled run is retried where it was cancelled", async () => {
  const cwd = temporaryFolder()
  writeFileSync(
    join(cwd, "flow.yaml"),
    "name: w\ntasks:\n  a: { command: echo a >> witness }\n  b: { depends_on: [a], command: test -e fixed || sleep 1000 }\n",
  )
  const first = startOrk(["run", "flow.yaml"], { cwd })
  await first.printed(/b running/)
  first.kill("SIGINT")
  expect((await first.exit).code).toBe(130)
  writeFileSync(join(cwd, "fixed"), "")
  const second = await orkRun(["--resume", "latest"], { cwd })
  expect([second.code, second.run.tasks["success"], lines(join(cwd, "witness"))]).toEqual([0, 2, ["a"]])
})

test.each([
  ["on_success", "true", 0, 1],
  ["on_failure", "test -e go", 0, 2],
])("an interrupted hook of %s runs again, and a failed run is retried after it", async (hook, command, code, tries) => {
  const cwd = temporaryFolder()
  writeFileSync(
    join(cwd, "flow.yaml"),
    `name: w\ntasks:\n  a: { command: echo a >> witness; ${command} }\n${hook}:\n  - { command: echo hook >> witness; test -e go || sleep 1000 }\n`,
  )
  const first = startOrk(["run", "flow.yaml"], { cwd })
  await first.printed(new RegExp(`${hook}.0 running`))
  await vi.waitFor(() => expect(lines(join(cwd, "witness"))).toContain("hook"))
  first.kill("SIGKILL")
  await first.exit
  writeFileSync(join(cwd, "go"), "")
  const second = await orkRun(["--resume", "latest"], { cwd })
  expect([second.code, second.run.status]).toEqual([code, "success"])
  const written = lines(join(cwd, "witness"))
  expect([count(written, "a"), count(written, "hook")]).toEqual([tries, 2])
})

test("a run that another process executes is rejected, with the name of the process", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "flow.yaml"), "name: w\ntasks:\n  a: { command: sleep 1000 }\n")
  const first = startOrk(["run", "flow.yaml"], { cwd })
  await first.printed(/a running/)
  const { code, stderr } = await ork(["run", "--resume", "latest"], { cwd })
  expect([code, stderr]).toEqual([2, matching(new RegExp(`is being run by .*:${first.child.pid}; wait until it finishes`))])
})

test("params are rejected, because they belong to the run that was started", async () => {
  const cwd = temporaryFolder()
  const { code, stderr } = await ork(["run", "--resume", "latest", "--param", "a=b"], { cwd })
  expect([code, stderr]).toEqual([2, containing("leave out --param")])
})

test("after kill -9 in nested groups, the run continues where each item was", async () => {
  const cwd = temporaryFolder()
  writeFileSync(
    join(cwd, "flow.yaml"),
    `
name: nested
tasks:
  g:
    foreach: [x, y]
    tasks:
      a: { command: 'echo "a\${{ parent.index }}" >> witness' }
      h:
        depends_on: [a]
        foreach: [x, y]
        tasks:
          slow: { command: 'echo started; test -e go || sleep 60' }
          b: { depends_on: [slow], command: 'echo b >> witness' }
  last: { depends_on: [g], command: echo last >> witness }
`,
  )
  const first = startOrk(["run", "flow.yaml"], { cwd })
  await first.printed(/g\.h\.slow\[1\.1\] running/)
  first.kill("SIGKILL")
  await first.exit
  const { id } = await show(cwd)
  await vi.waitFor(() => expect(processesOf(id)).toEqual([]), { timeout: 10_000 })
  writeFileSync(join(cwd, "go"), "")
  const second = await orkRun(["--resume", "latest"], { cwd })
  expect([second.code, second.run.tasks["success"]]).toEqual([0, 11])
  expect(lines(join(cwd, "witness")).toSorted()).toEqual(["a0", "a1", "b", "b", "b", "b", "last"])
})
