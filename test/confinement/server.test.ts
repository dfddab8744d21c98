// The tasks of a server that runs as root have a user of their own, and reach nothing of the server.

import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { ork, temporaryFolder } from "../support/ork.ts"
import { startServer } from "../support/server.ts"
import { isRoot, orkForEveryUser } from "../support/users.ts"

const command = [orkForEveryUser()]

const SECRET = "canary-server-81c2"

const DEFINITION = `name: spy
include: [data.txt]
tasks:
  process:
    command: |
      set -e
      test "$(id -un)" = nobody
      echo new > new.txt; echo more >> data.txt
      echo shown > /dev/stdout
      ! cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep ${SECRET}
      ! ls ../../objects ../../admin.key ../../ork.db
      echo '{"ok":true}' > "$ORK_OUTPUT"
  node:
    depends_on: [process]
    executor: node
    file: spy.mjs
    function: spy
  python:
    depends_on: [process]
    executor: python
    file: spy.py
    function: spy
`

const NODE = `import { readdirSync, readFileSync, writeFileSync, existsSync } from "node:fs"
export const spy = (input, ctx) => {
  writeFileSync("node.txt", "written")
  const environments = readdirSync("/proc").filter((name) => /^[0-9]+$/.test(name)).flatMap((pid) => {
    try { return [readFileSync("/proc/" + pid + "/environ", "latin1")] } catch { return [] }
  })
  return { uid: process.getuid(), leaked: environments.some((text) => text.includes("${SECRET}")), data: existsSync("../../ork.db"), input }
}
`

const PYTHON = `import glob, os
def spy(input, ctx):
    open("python.txt", "w").write("written")
    leaked = False
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            leaked = leaked or b"${SECRET}" in open(path, "rb").read()
        except OSError:
            pass
    return {"uid": os.getuid(), "leaked": leaked, "data": os.path.exists("../../ork.db")}
`

test.runIf(isRoot)(
  "processes and functions run as another user, in their own folder, and see nothing of the server",
  async () => {
    const cwd = temporaryFolder()
    chmodSync(cwd, 0o755)
    mkdirSync(join(cwd, "flows"))
    writeFileSync(join(cwd, "flows/spy.yaml"), DEFINITION)
    writeFileSync(join(cwd, "flows/data.txt"), "data\n")
    writeFileSync(join(cwd, "flows/spy.mjs"), NODE)
    writeFileSync(join(cwd, "flows/spy.py"), PYTHON)
    const env = { ORK_SECRET_X: SECRET, ORK_TASK_USER: "nobody" }
    const server = await startServer(["--dir", "flows"], { cwd, env, command })
    const id = await server.trigger("spy")
    const run = await server.reaches(id, "success", "failed")
    const tasks = (await server.call("GET", `/runs/${id}/tasks`)).body["items"] as {
      name: string
      error: string
      output: unknown
    }[]
    expect(tasks.map(({ name, error, output }) => [name, error, output])).toEqual([
      ["process", null, { ok: true }],
      ["node", null, { uid: 65_534, leaked: false, data: false, input: { process: { ok: true } } }],
      ["python", null, { uid: 65_534, leaked: false, data: false }],
    ])
    expect(run["status"]).toBe("success")
    expect(server.process.stderr).toMatch(/tasks are confined/)
    expect(server.process.stderr).toMatch(/tasks run as the user nobody/)
    // The environment of the server itself is empty, and nobody else can read its memory.
    const pid = server.process.child.pid!
    expect(readFileSync(`/proc/${pid}/environ`, "latin1")).not.toContain(SECRET)
    expect(readFileSync(`/proc/${pid}/environ`, "latin1").replaceAll("\0", "")).toBe("")
  },
)

test.runIf(isRoot)(
  "where the user of tasks cannot enter the folder, tasks run as root without its rights, and the log says why",
  async () => {
    const cwd = temporaryFolder()
    const server = await startServer([], { cwd, command })
    expect(server.process.stderr).toMatch(/tasks run as root: the user (nobody|ork-task) cannot enter /)
    await server.deploy({
      name: "who",
      tasks: { who: { command: "id -u; unshare -m umount -l .. && exit 1; mount -t tmpfs x /mnt && exit 1; exit 0" } },
    })
    await server.reaches(await server.trigger("who"), "success")
  },
)

test.runIf(isRoot)("a task that may not execute its program or enter its folder says which user it ran as", async () => {
  const cwd = temporaryFolder()
  chmodSync(cwd, 0o755)
  const closed = temporaryFolder()
  writeFileSync(join(closed, "program"), "#!/bin/sh\n", { mode: 0o700 })
  const server = await startServer([], { cwd, env: { ORK_TASK_USER: "nobody" }, command })
  await server.deploy({
    name: "denied",
    tasks: {
      folder: { command: "true", working_dir: closed },
      program: { command: [join(closed, "program")] },
      script: { command: "echo true > program; ./program" },
      user: { command: "true", working_dir: closed, run_as: "nobody" },
    },
  })
  const id = await server.trigger("denied")
  await server.reaches(id, "failed")
  const tasks = (await server.call("GET", `/runs/${id}/tasks`)).body["items"] as { name: string; error: string }[]
  const hint =
    "; the task runs as the user nobody, because Ork runs as root: give that user access, or set task_user in ork.yaml"
  expect(Object.fromEntries(tasks.map(({ name, error }) => [name, error]))).toEqual({
    folder: `could not start: the working folder ${closed} cannot be entered: Permission denied (EACCES)${hint}`,
    program: `could not start: ${join(closed, "program")}: not executable, or a folder on its path may not be entered (EACCES)${hint}`,
    script: `exit code 126${hint}`,
    user: `could not start: the working folder ${closed} cannot be entered: Permission denied (EACCES); the task runs as the user nobody (run_as)`,
  })
})

test.runIf(isRoot)("a server does not start if the configured user of tasks cannot enter the folder", async () => {
  const cwd = temporaryFolder()
  const result = await ork(["serve", "--port", "0"], { cwd, env: { ORK_TASK_USER: "nobody" }, command })
  expect([result.code, result.stdout]).toEqual([2, ""])
  expect(result.stderr).toMatch(
    /^ork: task_user: the user nobody cannot enter \S+, which \S+ is in \(chmod o\+x \S+ allows it\)\n$/,
  )
})

test.runIf(isRoot)("doctor says if the user of tasks cannot enter the folder", async () => {
  const cwd = temporaryFolder()
  const { stdout } = await ork(["doctor"], { cwd, command })
  expect(stdout).toMatch(
    /warn +sandbox +missing: tasks run as root: the user \S+ cannot enter \S+, which \S+ is in \(chmod o\+x/,
  )
  const configured = await ork(["doctor"], { cwd, env: { ORK_TASK_USER: "nobody" }, command })
  expect(configured.code).toBe(1)
  expect(configured.stdout).toMatch(/fail +spawn +task_user: the user nobody cannot enter /)
  chmodSync(cwd, 0o755)
  const open = await ork(["doctor"], { cwd, env: { ORK_TASK_USER: "nobody" }, command })
  expect(open.stdout).toMatch(/ok +sandbox +tasks run as the user nobody/)
})

test.runIf(isRoot)("the default policy runs no task as root, and a rule runs some without confinement", async () => {
  const cwd = temporaryFolder()
  chmodSync(cwd, 0o755)
  mkdirSync(join(cwd, "admin"))
  const definition =
    "name: admin\ntasks: { a: { command: 'id -u; grep -q NoNewPrivs:.0 /proc/self/status; test -e ../../ork.db' } }\n"
  writeFileSync(join(cwd, "admin/admin.yaml"), definition)
  chmodSync(join(cwd, "admin"), 0o777)
  writeFileSync(join(cwd, "ork.yaml"), `policy: { rules: [{ folders: ["*/admin"], sandbox: off }] }\n`)
  const server = await startServer(["--dir", "admin"], { cwd, env: { ORK_TASK_USER: "nobody" }, command })
  await server.reaches(await server.trigger("admin"), "success")
  for (const user of ["root", "0"]) {
    const deployed = await server.call("POST", "/workflows", { name: "w", tasks: { a: { command: "id", run_as: user } } })
    expect([deployed.status, deployed.text]).toEqual([400, expect.stringContaining(`does not allow run_as ${user}`)])
  }
  await server.deploy({
    name: "author",
    tasks: {
      a: { command: "test ! -e ../../ork.db && test ! -s ../../../ork.yaml && test $(id -u) != 0" },
      b: { command: "cd ../../../admin && test -e admin.yaml && ! touch other.yaml" },
    },
  })
  await server.reaches(await server.trigger("author"), "success")
})
