// `ork secrets set` at a terminal: the value is asked for, and never shown.

import { execFileSync } from "node:child_process"
import { readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { ORK, temporaryFolder } from "../support/ork.ts"

/** Runs a command at a terminal of its own, types a line when it asks, and prints what the terminal shows. */
const TERMINAL = `
import os, pty, sys
pid, terminal = pty.fork()
if pid == 0:
    os.execvp(sys.argv[2], sys.argv[2:])
shown = b""
typed = False
while True:
    try:
        part = os.read(terminal, 1024)
    except OSError:
        break
    if not part:
        break
    shown += part
    if not typed and b": " in shown:
        typed = True
        os.write(terminal, sys.argv[1].encode() + b"\\r")
print(shown.decode(), end="")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
`

test("a value that is typed is stored for this user only, and not shown", () => {
  const cwd = temporaryFolder()
  const env = { PATH: process.env["PATH"]!, HOME: process.env["HOME"]!, ORK_SECRETS_DIR: "secrets" }
  const value = "typed-and-hidden x"
  const shown = execFileSync("python3", ["-c", TERMINAL, value, ORK, "secrets", "set", "API_TOKEN"], {
    cwd,
    env,
    encoding: "utf8",
  })
  expect(shown.replaceAll("\r", "")).toBe(`value of API_TOKEN: \nAPI_TOKEN is stored in ${join(cwd, "secrets")}\n`)
  const file = join(cwd, "secrets/API_TOKEN")
  expect([readFileSync(file, "utf8"), statSync(file).mode & 0o777]).toEqual([value, 0o600])
})
