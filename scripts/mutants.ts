// Plants the bugs of test/mutants one at a time into a copy of the tree, and checks that the simulation or the named tests find each.
// `node scripts/mutants.ts [NAME…]` prints what found each bug; exits with 1 when one survives or cannot be planted. A NAME may be the
// beginning of several names.

import { execFile } from "node:child_process"
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { promisify } from "node:util"
import { PLANTED_BUGS } from "../test/mutants/all.ts"
import { plant, type PlantedBug } from "../test/mutants/planted-bug.ts"
import { startPostgres } from "../test/support/components/postgres-server.ts"

const run = promisify(execFile)
const ROOT = dirname(import.meta.dirname)
const CONCURRENCY = 2
/** The parts of the tree that the simulation and the store tests need. */
const PARTS = [
  "src",
  "test/engine",
  "test/sim",
  "test/support",
  "test/mutants",
  "package.json",
  "tsconfig.json",
  "vitest.config.ts",
]
const MAX_OUTPUT_BYTES = 1 << 28

interface Outcome {
  found: boolean
  text: string
}

const copyTree = (): string => {
  const copy = mkdtempSync(join(tmpdir(), "ork-mutant-"))
  for (const part of PARTS) cpSync(join(ROOT, part), join(copy, part), { recursive: true })
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"))
  return copy
}

/** Runs node; returns its output and exit code. */
const node = async (
  cwd: string,
  args: string[],
  databaseUrl: string,
): Promise<{ code: number; stdout: string; stderr: string }> => {
  const options = { cwd, env: { ...process.env, TEST_DATABASE_URL: databaseUrl }, maxBuffer: MAX_OUTPUT_BYTES }
  return await run(process.execPath, args, options).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }: { code: number; stdout: string; stderr: string }) => ({ code, stdout, stderr }),
  )
}

const runSimulation = async (copy: string, args: string[], databaseUrl: string): Promise<Outcome> => {
  const { code, stdout, stderr } = await node(copy, ["test/sim/main.ts", "--threads", "1", ...args], databaseUrl)
  if (code === 0) return { found: false, text: "SURVIVED the simulation" }
  const seed = /^seed (\d+) failed/m.exec(stdout)?.[1]
  const invariant = /^invariant: (.*)$/m.exec(stdout)?.[1]
  if (seed === undefined) return { found: false, text: `DID NOT RUN: ${stderr.trim().slice(0, 500)}` }
  return { found: true, text: `found by seed ${seed}: ${invariant}` }
}

/** A run in which no test passes does not count: the bug must not break everything. */
const runTests = async (copy: string, args: string[], databaseUrl: string): Promise<Outcome> => {
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs")
  const { stderr } = await node(copy, [vitest, "run", "--reporter=json", "--outputFile=report.json", ...args], databaseUrl)
  const path = join(copy, "report.json")
  if (!existsSync(path)) return { found: false, text: `DID NOT RUN: ${stderr.trim().slice(0, 500)}` }
  const report = JSON.parse(readFileSync(path, "utf8")) as {
    numPassedTests: number
    numFailedTests: number
    testResults: { assertionResults: { status: string; fullName: string }[] }[]
  }
  if (report.numFailedTests === 0) return { found: false, text: "SURVIVED the tests" }
  if (report.numPassedTests === 0) return { found: false, text: "BREAKS EVERY TEST" }
  const failed = report.testResults
    .flatMap(({ assertionResults }) => assertionResults)
    .find(({ status }) => status === "failed")
  return { found: true, text: `found by ${report.numFailedTests} tests, such as: ${failed?.fullName ?? ""}` }
}

const tryBug = async (bug: PlantedBug, databaseUrl: string): Promise<Outcome> => {
  const copy = copyTree()
  try {
    plant(copy, bug)
    const { foundBy } = bug
    return "sim" in foundBy
      ? await runSimulation(copy, foundBy.sim, databaseUrl)
      : await runTests(copy, foundBy.tests, databaseUrl)
  } catch (error) {
    return { found: false, text: `CANNOT BE PLANTED: ${(error as Error).message}` }
  } finally {
    rmSync(copy, { recursive: true, force: true })
  }
}

const wanted = process.argv.slice(2)
const bugs = PLANTED_BUGS.filter(({ name }) => wanted.length === 0 || wanted.some((start) => name.startsWith(start)))
const postgres = await startPostgres()

let survived = 0
const queue = [...bugs]
const worker = async (): Promise<void> => {
  for (let bug = queue.shift(); bug !== undefined; bug = queue.shift()) {
    const { found, text } = await tryBug(bug, postgres.url)
    if (!found) survived += 1
    console.log(`${bug.name}: ${text}`)
  }
}
await Promise.all(Array.from({ length: CONCURRENCY }, worker))
await postgres.stop()

console.log(survived === 0 ? `all ${bugs.length} planted bugs were found` : `${survived} of ${bugs.length} were not found`)
process.exit(survived === 0 && bugs.length > 0 ? 0 : 1)
