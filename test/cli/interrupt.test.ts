// Ctrl-C and SIGTERM: the first one cancels and waits, the second one does not wait. In both cases no process of a task is left.

import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test, vi } from "vitest"
import { type OrkProcess, processesOf, startOrk } from "../support/ork-process.ts"
import { ork, temporaryFolder } from "../support/ork.ts"

/** `polite` ends on SIGTERM; `stubborn` and its child process ignore it. */
const FLOW = `
name: w
tasks:
  polite: { command: "echo up; sleep 1000" }
  stubborn: { command: "trap '' TERM; echo up; sh -c \\"trap '' TERM; sleep 1001\\" & wait; sleep 1002" }
  after: { depends_on: [polite], command: "true" }
on_cancel:
  - command: echo cancelled > hook
`

const setup = async (env: Record<string, string>): Promise<{ cwd: string; process: OrkProcess; runId: string }> => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "flow.yaml"), FLOW)
  const process = startOrk(["run", "flow.yaml", "--json"], { cwd, env })
  await process.printed(/"task":"polite".*"running"/)
  await process.printed(/"task":"stubborn".*"running"/)
  const runId = /"run_id":"([^"]+)"/.exec(process.stdout)![1]!
  expect(processesOf(runId)).not.toEqual([])
  // Both have set their traps once they have written their first line.
  for (const task of ["polite", "stubborn"]) {
    await vi.waitFor(async () => expect((await ork(["logs", runId, task], { cwd })).stdout).toBe("up\n"), { timeout: 20_000 })
  }
  return { cwd, process, runId }
}

const lastLine = (process: OrkProcess): unknown => JSON.parse(process.stdout.trimEnd().split("\n").at(-1)!)

test.each(["SIGINT", "SIGTERM"] as const)(
  "one %s cancels the run, waits for the tasks to stop and exits with 130",
  async (signal) => {
    const { cwd, process, runId } = await setup({ ORK_GRACE: "300ms" })
    process.kill(signal)
    expect(await process.exit).toEqual({ code: 130, signal: null })
    expect(process.stderr).toBe("ork: cancelling… press Ctrl-C again to kill\n")
    expect(lastLine(process)).toMatchObject({ id: runId, status: "cancelled", tasks: { cancelled: 3 } })
    expect(processesOf(runId)).toEqual([])
    expect((await ork(["logs", runId, "on_cancel.0"], { cwd })).code).toBe(0)
  },
)

test("a second SIGINT kills the tasks at once, and the run can be resumed", async () => {
  const { cwd, process, runId } = await setup({ ORK_GRACE: "1h" })
  process.kill("SIGINT")
  await process.printed(/cancelling/)
  process.kill("SIGINT")
  expect(await process.exit).toEqual({ code: 130, signal: null })
  await vi.waitFor(() => expect(processesOf(runId)).toEqual([]), { timeout: 10_000 })

  const again = startOrk(["run", "--resume", runId, "--json"], { cwd, env: { ORK_GRACE: "100ms" } })
  await again.printed(/"task":"stubborn","index":null,"path":"","attempt":2,"status":"running"/)
  again.kill("SIGTERM")
  expect(await again.exit).toEqual({ code: 130, signal: null })
  expect(processesOf(runId)).toEqual([])
})
