// The tasks of a server that runs as root have a user of their own, and reach nothing of the server.

import { chmodSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { startServer } from "../support/server.ts"
import { isRoot } from "../support/users.ts"

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
    const server = await startServer(["--dir", "flows"], { cwd, env })
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
    const server = await startServer([], { cwd })
    expect(server.process.stderr).toMatch(/tasks run as root: the user (nobody|ork-task) cannot enter /)
    await server.deploy({
      name: "who",
      tasks: { who: { command: "id -u; unshare -m umount -l .. && exit 1; mount -t tmpfs x /mnt && exit 1; exit 0" } },
    })
    await server.reaches(await server.trigger("who"), "success")
  },
)
