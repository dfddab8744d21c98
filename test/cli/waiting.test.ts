// Waiting tasks without a server: `ork run` in one terminal, the approval from another.

import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test, vi } from "vitest"
import { startOrk } from "../support/ork-process.ts"
import { ork, orkRun, temporaryFolder } from "../support/ork.ts"

const ASK = `
name: ask
tasks:
  ask: { executor: approval, message: Ship it? }
  ship: { depends_on: [ask], command: 'echo "\${{ tasks.ask.output.comment }}"' }
`

const asking = async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "ask.yaml"), ASK)
  const run = startOrk(["run", "ask.yaml"], { cwd })
  await run.printed(/ask waits for approval: Ship it\?/)
  return { cwd, run }
}

test("a run waits for an approval from another terminal", async () => {
  const { cwd, run } = await asking()
  expect((await ork(["show", "latest"], { cwd })).stdout).toMatch(/ask .*running.*waits for approval: Ship it\?/)
  expect((await ork(["explain", "latest", "ask"], { cwd })).stdout).toContain("ask waits for approval: Ship it?")
  const approved = await ork(["approve", "latest", "ask", "--comment", "looks good"], { cwd })
  expect(approved).toMatchObject({ code: 0, stderr: "" })
  expect(approved.stdout).toMatch(/^ask of run \S+ is approved$/m)
  expect(await run.exit).toMatchObject({ code: 0 })
  expect((await ork(["logs", "latest", "ship"], { cwd })).stdout).toBe("looks good\n")
  const again = await ork(["reject", "latest", "ask"], { cwd })
  expect(again.code).not.toBe(0)
  expect(again.stderr).toContain("does not wait for approval: it has ended as success")
})

test("a rejection fails the run with its comment", async () => {
  const { cwd, run } = await asking()
  expect((await ork(["reject", "latest", "ask", "--comment", "not today"], { cwd })).code).toBe(0)
  expect(await run.exit).toMatchObject({ code: 1 })
  expect((await ork(["show", "latest"], { cwd })).stdout).toContain("not today")
})

test("a sub-workflow is found beside the file, also when the run is resumed", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "parent.yaml"), "name: parent\ntasks: { sub: { executor: workflow, workflow: child } }")
  writeFileSync(join(cwd, "child.yaml"), "name: child\ntasks: { ask: { executor: approval } }")
  const first = startOrk(["run", "parent.yaml"], { cwd })
  await first.printed(/sub waits for workflow child \(run /)
  first.kill("SIGKILL")
  await first.exit
  const runs = JSON.parse((await ork(["runs", "--json"], { cwd })).stdout) as { id: string; workflow: string }[]
  const idOf = (workflow: string): string => runs.find((run) => run.workflow === workflow)!.id
  const second = startOrk(["run", "--resume", idOf("parent")], { cwd })
  // The first process may have been killed before its sub-workflow waited.
  const approve = async (): Promise<boolean> => (await ork(["approve", idOf("child"), "ask"], { cwd })).code === 0
  await vi.waitUntil(approve, { timeout: 20_000 })
  expect(await second.exit).toMatchObject({ code: 0 })
  const shown = JSON.parse((await ork(["show", idOf("child"), "--json"], { cwd })).stdout) as { parent: unknown }
  expect(shown.parent).toEqual({ run_id: idOf("parent"), task: "sub" })
})

test("a missing workflow fails the task, which names it", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "parent.yaml"), "name: parent\ntasks: { sub: { executor: workflow, workflow: nobody } }")
  expect((await orkRun(["parent.yaml"], { cwd })).code).toBe(1)
  expect((await ork(["show", "latest"], { cwd })).stdout).toContain(
    'there is no workflow "nobody": deploy it, or put it beside this one',
  )
})
