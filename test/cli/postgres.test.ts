// The command line on Postgres: runs, read commands, retention, and resuming after kill -9 once the lease has expired.

import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, onTestFinished, test, vi } from "vitest"
import { containing, having, matching } from "../support/matchers.ts"
import { processesOf, startOrk } from "../support/ork-process.ts"
import { ork, orkRun, temporaryFolder } from "../support/ork.ts"
import { createDatabase } from "../support/components/postgres.ts"

const setup = async (text: string) => {
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "flow.yaml"), text)
  return { cwd, env: { ORK_DATABASE_URL: database.url } }
}

test("a run is executed, listed, read and removed", async () => {
  const options = await setup(
    "name: w\ntasks:\n  a: { foreach: [1, 2, 3], command: 'echo hi' }\n  b: { depends_on: [a], command: exit 2 }\n",
  )
  const { code, run } = await orkRun(["flow.yaml"], options)
  expect([code, run.tasks]).toEqual([1, having({ success: 3, failed: 1 })])
  expect(JSON.parse((await ork(["runs", "--json"], options)).stdout)).toMatchObject([{ id: run.id, status: "failed" }])
  expect((await ork(["logs", "latest", "a", "--index", "2"], options)).stdout).toBe("hi\n")
  expect((await ork(["run", "--resume", "latest"], options)).stdout).toContain("✗ b, attempt 2: exit code 2")
  expect((await ork(["gc", "--keep", "0"], options)).stdout).toBe("removed 1 run\n")
  expect((await ork(["doctor"], options)).stdout).toMatch(/^ok +database +postgres:\/\/…@/m)
})

test("after kill -9 a run cannot be resumed before the lease has expired", async () => {
  const options = await setup(
    "name: w\ntasks:\n  a: { command: echo a >> witness }\n  b: { depends_on: [a], command: test -e fixed || sleep 1000 }\n",
  )
  const first = startOrk(["run", "flow.yaml", "--json"], options)
  await first.printed(/"task":"b".*"running"/)
  const runId = /"run_id":"([^"]+)"/.exec(first.stdout)![1]!
  first.kill("SIGKILL")
  await first.exit
  await vi.waitFor(() => expect(processesOf(runId)).toEqual([]), { timeout: 10_000 })
  const early = await ork(["run", "--resume", runId], options)
  expect([early.code, early.stderr]).toEqual([2, containing("if that process has just died, try again in 8 seconds")])

  writeFileSync(join(options.cwd, "fixed"), "")
  const second = await vi.waitFor(
    async () => {
      const result = await ork(["run", "--resume", runId, "--json"], options)
      expect(result).toEqual({ code: 0, stderr: "", stdout: matching(/"status":"success"/) })
      return result
    },
    { timeout: 40_000, interval: 500 },
  )
  expect(JSON.parse(second.stdout.trimEnd().split("\n").at(-1)!)).toMatchObject({ id: runId, tasks: { success: 2 } })
})

test("an unreachable database is reported in one line", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "flow.yaml"), "name: w\ntasks:\n  a: { command: 'true' }\n")
  const env = { ORK_DATABASE_URL: "postgres://me:secret@127.0.0.1:1/none" }
  const { code, stdout, stderr } = await ork(["run", "flow.yaml"], { cwd, env })
  expect([code, stdout]).toEqual([1, ""])
  expect(stderr).toMatch(/^ork: the database .*127\.0\.0\.1.* is not available: .*\n$/)
  expect(stderr).not.toContain("secret")
})

test("a missing database and a missing role are reported in one line that says what to do", async () => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "flow.yaml"), "name: w\ntasks:\n  a: { command: 'true' }\n")
  const database = await createDatabase()
  onTestFinished(() => database.drop())
  const missing = new URL(database.url)
  missing.pathname = "/nowhere"
  const stranger = new URL(database.url)
  stranger.username = "nobody_at_all"
  for (const [url, expected] of [
    [missing, /^ork: the database .*\/nowhere is not available: database "nowhere" does not exist; create it .*\n$/],
    [stranger, /^ork: the database .* is not available: role "nobody_at_all" does not exist; check the user .*\n$/],
  ] as const) {
    const { code, stderr } = await ork(["run", "flow.yaml"], { cwd, env: { ORK_DATABASE_URL: url.href } })
    expect(stderr).toMatch(expected)
    expect(code).toBe(1)
  }
})
