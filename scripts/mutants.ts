// Plants one bug at a time (test/mutants/*.patch) into a copy of the tree and sees that the simulation finds it.
// `node scripts/mutants.ts [NAME…]`: prints what found each one; ends with 1 when one survives or a patch does not apply.
// The lines before a patch's diff say what the bug is, and after `sim:` which seeds to play instead of the first ones.

import { execFile } from "node:child_process"
import { cpSync, globSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import { promisify } from "node:util"

const run = promisify(execFile)
const ROOT = dirname(import.meta.dirname)
const SEEDS = ["--seeds", "400"]
const AT_ONCE = 2

interface Verdict {
  found: boolean
  text: string
}

/** What a mutant needs to run: no more, so that a copy is cheap. */
const copyTree = (): string => {
  const copy = mkdtempSync(join(tmpdir(), "ork-mutant-"))
  for (const part of ["src", "test/sim", "package.json"]) cpSync(join(ROOT, part), join(copy, part), { recursive: true })
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"))
  return copy
}

const judge = async (patch: string): Promise<Verdict> => {
  const copy = copyTree()
  try {
    const options = /^sim: (.*)$/m.exec(readFileSync(patch, "utf8"))?.[1]?.split(" ") ?? SEEDS
    try {
      await run("git", ["apply", "-C0", patch], { cwd: copy })
    } catch (error) {
      return { found: false, text: `DOES NOT APPLY: ${(error as { stderr: string }).stderr.trim()}` }
    }
    const played = await run(process.execPath, ["test/sim/main.ts", ...options], { cwd: copy }).then(
      () => null,
      (error: { stdout: string; stderr: string }) => error,
    )
    if (played === null) return { found: false, text: "SURVIVED" }
    const seed = /^seed (\d+) failed/m.exec(played.stdout)?.[1]
    const invariant = /^invariant: (.*)$/m.exec(played.stdout)?.[1]
    if (seed === undefined) return { found: false, text: `DID NOT RUN: ${played.stderr.trim().slice(0, 500)}` }
    return { found: true, text: `caught by seed ${seed}: ${invariant}` }
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

const wanted = process.argv.slice(2)
const patches = globSync(join(ROOT, "test/mutants/*.patch"))
  .toSorted()
  .filter((patch) => wanted.length === 0 || wanted.includes(basename(patch, ".patch")))

let survived = 0
const queue = [...patches]
const worker = async (): Promise<void> => {
  for (let patch = queue.shift(); patch !== undefined; patch = queue.shift()) {
    const { found, text } = await judge(patch)
    if (!found) survived += 1
    console.log(`${basename(patch, ".patch")}: ${text}`)
  }
}
await Promise.all(Array.from({ length: AT_ONCE }, worker))

console.log(
  survived === 0 ? `all ${patches.length} planted bugs were found` : `${survived} of ${patches.length} were not found`,
)
process.exit(survived === 0 && patches.length > 0 ? 0 : 1)
