// A seed that fails because of a planted bug shrinks to a small world with the same violation.

import { execFile } from "node:child_process"
import { cpSync, symlinkSync } from "node:fs"
import { join } from "node:path"
import { expect, test } from "vitest"
import { ENGINE_BUGS } from "../../mutants/engine.ts"
import { plant } from "../../mutants/planted-bug.ts"
import { REPO, temporaryFolder } from "../../support/ork.ts"

const simulate = (root: string, ...args: string[]): Promise<string> =>
  new Promise((resolve) => {
    const options = { cwd: root, maxBuffer: 1 << 28 }
    execFile(process.execPath, ["test/sim/main.ts", ...args], options, (_, stdout) => resolve(stdout))
  })

test("a planted bug is shown by a world of a few tasks", async () => {
  const root = temporaryFolder()
  for (const part of ["src", "test/sim", "test/support", "package.json", "tsconfig.json"])
    cpSync(join(REPO, part), join(root, part), { recursive: true })
  symlinkSync(join(REPO, "node_modules"), join(root, "node_modules"))
  plant(
    root,
    ENGINE_BUGS.find(({ name }) => name === "engine-approves-rejection")!,
  )
  const found = await simulate(root, "--seeds", "400")
  const [, seed] = /^seed (\d+) failed/m.exec(found)!
  const [, invariant] = /^invariant: (.*)$/m.exec(found)!
  const shrunk = await simulate(root, "--shrink", seed!)
  expect(shrunk).toContain(`invariant: ${invariant}`)
  expect(shrunk).toMatch(/^ {2}\S+, approval/m)
  expect(shrunk.match(/^run .* at \d+ ms$/gm)).toHaveLength(1)
  expect(shrunk.match(/^ {2}t\d+/gm)!.length).toBeLessThan(4)
}, 600_000)
