// What a task can reach of the Ork that runs it: nothing but its own folders. Each test starts the built command, as root and as a
// user without rights.

import { execFile } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, test } from "vitest"
import { ORK, temporaryFolder } from "../support/ork.ts"
import { asNobody, isRoot, nobodyCanRun, nobodysFolder } from "../support/users.ts"

const run = promisify(execFile)

const SECRET = "canary-5d1f0c"

/** A task that tries everything, and returns what worked. */
const SPY = `name: spy
tasks:
  first:
    command: echo '{"rows":[1,2]}' > "$ORK_OUTPUT"; echo kept > kept.txt
  spy:
    depends_on: [first]
    command: |
      found=
      cat .ork/ork.db .ork/ork.db-wal .ork/objects/* >/dev/null 2>&1 && found="$found data"
      ls .ork/objects >/dev/null 2>&1 && found="$found objects"
      cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -q ${SECRET} && found="$found environment"
      unshare -m sh -c 'umount -l .ork; umount -l /proc; ls .ork/objects' >/dev/null 2>&1 && found="$found mounts"
      kill -9 "$ORK_TEST_PID" 2>/dev/null && found="$found signal"
      cat "/proc/$ORK_TEST_PID/mem" >/dev/null 2>&1 && found="$found memory"
      grep -q 'NoNewPrivs:.*1' /proc/self/status || found="$found privileges"
      echo visible > /dev/stderr
      echo "{\\"found\\":\\"$found\\",\\"kept\\":\\"$(cat kept.txt)\\",\\"input\\":$(cat "$ORK_INPUT")}" > "$ORK_OUTPUT"
`

interface Result {
  code: number
  stdout: string
  stderr: string
}

const orkAs = async (before: string[], args: string[], cwd: string, env: Record<string, string> = {}): Promise<Result> => {
  const [program, ...rest] = [...before, ORK, ...args]
  const options = { cwd, env: { PATH: process.env.PATH!, HOME: cwd, ...env } }
  return run(program!, rest, options).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: unknown) => ({ code: 1, ...(error as { stdout: string; stderr: string }) }),
  )
}

const users: [string, string[], () => string, boolean][] = [
  ["root", [], temporaryFolder, isRoot],
  ["a user without rights", asNobody, nobodysFolder, nobodyCanRun()],
  ["this user", [], temporaryFolder, !isRoot],
]

describe.each(users.filter(([, , , possible]) => possible))("ork run as %s", (_, before, folderOf) => {
  test("hides the data folder, the environment and the process from its tasks, which keep everything else", async () => {
    const cwd = folderOf()
    writeFileSync(join(cwd, "spy.yaml"), SPY)
    const env = { ORK_SECRET_X: SECRET }
    const shell = `ORK_TEST_PID=$$; export ORK_TEST_PID; sed -i "s/\\$ORK_TEST_PID/$$/g" spy.yaml; exec "$@"`
    const { code, stdout, stderr } = await orkAs([...before, "sh", "-c", shell, "sh"], ["run", "spy.yaml", "--json"], cwd, env)
    expect(stderr).toBe("")
    expect(code).toBe(0)
    const { id } = JSON.parse(stdout.trim().split("\n").at(-1)!) as { id: string }
    const shown = await orkAs(before, ["show", id, "--json"], cwd)
    const { task_list: tasks } = JSON.parse(shown.stdout) as { task_list: { name: string; output: unknown }[] }
    const output = tasks.find(({ name }) => name === "spy")?.output
    expect(output).toEqual({ found: "", kept: "kept", input: { first: { rows: [1, 2] } } })
    expect((await orkAs(before, ["logs", id, "spy"], cwd)).stdout).toContain("visible")
  })

  test("doctor lists the active protections", async () => {
    const { stdout } = await orkAs(before, ["doctor"], folderOf())
    expect(stdout).toMatch(/ok +sandbox +the data folder is hidden/)
    expect(stdout).toMatch(/ok +sandbox +no new privileges, limits of processes, memory and files/)
    expect(stdout).toMatch(/ok +sandbox +the environment and memory of Ork cannot be read/)
    expect(stdout).toMatch(/ok +sandbox +.*pid and mount namespaces/)
  })

  test("`sandbox: required` runs with them, and `sandbox: off` says that there are none", async () => {
    const cwd = folderOf()
    writeFileSync(join(cwd, "one.yaml"), "name: one\ntasks: { a: { command: 'true' } }\n")
    writeFileSync(join(cwd, "ork.yaml"), "sandbox: required\n")
    expect((await orkAs(before, ["run", "one.yaml"], cwd)).code).toBe(0)
    writeFileSync(join(cwd, "ork.yaml"), "sandbox: off\n")
    expect((await orkAs(before, ["run", "one.yaml"], cwd)).code).toBe(0)
    expect((await orkAs(before, ["doctor"], cwd)).stdout).toMatch(/warn +sandbox +off/)
  })
})
