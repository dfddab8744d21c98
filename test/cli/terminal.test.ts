// The live view on a real pseudo-terminal, which `script` of util-linux provides.

import { spawnSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { startOrk } from "../support/ork-process.ts"
import { ORK, temporaryFolder } from "../support/ork.ts"

const hasScript = spawnSync("script", ["--version"]).status === 0

const FLOW = `
name: live
tasks:
  first: { command: "true" }
  each:
    depends_on: [first]
    foreach: [1, 2, 3]
    command: echo hello from "\${{ item }}"; while [ ! -e go ]; do sleep 0.05; done
`

const start = (env: Record<string, string> = {}) => {
  const cwd = temporaryFolder()
  writeFileSync(join(cwd, "flow.yaml"), FLOW)
  const command = ["script", "-qec", `stty cols 60 rows 20; exec ${ORK} run flow.yaml`, "/dev/null"]
  return { cwd, process: startOrk([], { cwd, command, env: { TERM: "xterm", ...env } }) }
}

test.skipIf(!hasScript)(
  "statuses, bars, times and last log lines are redrawn in place, and the cursor is restored",
  async () => {
    const { cwd, process } = start()
    await process.printed(/hello from [123]/)
    writeFileSync(join(cwd, "go"), "")
    expect((await process.exit).code).toBe(0)
    const screen = process.stdout
    expect(screen).toContain("\u001b[?25l")
    expect(screen.lastIndexOf("\u001b[?25h")).toBeGreaterThan(screen.lastIndexOf("\u001b[?25l"))
    expect(screen).toMatch(/\u001b\[4A\r/)
    expect(screen).toMatch(/✓\S* first/)
    expect(screen).toMatch(/●\S* each .*░{10}\S* 0\/3/)
    expect(screen).toMatch(/1\/4 tasks/)
    expect(screen).toMatch(/\u001b\[32m✓\u001b\[39m \u001b\[1mlive\u001b\[22m \u001b\[32msuccess/)
    const widest = Math.max(
      ...screen
        .replaceAll(/\u001b\[[0-9;?]*[A-Za-z]/g, "")
        .split(/[\r\n]+/)
        .map((line) => line.length),
    )
    expect(widest).toBeLessThanOrEqual(80)
  },
)

test.skipIf(!hasScript)("NO_COLOR turns colours off", async () => {
  const { cwd, process } = start({ NO_COLOR: "1" })
  writeFileSync(join(cwd, "go"), "")
  await process.exit
  expect(process.stdout).not.toMatch(/\u001b\[[0-9;]*m/)
  expect(process.stdout).toContain("✓ live success")
})
