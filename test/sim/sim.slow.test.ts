import { execFile } from "node:child_process"
import { promisify } from "node:util"
import { describe, it } from "vitest"

const node = async (...args: string[]): Promise<void> => {
  await promisify(execFile)(process.execPath, args, { maxBuffer: 1 << 28 }).catch((error: { stdout: string }) => {
    throw new Error(error.stdout)
  })
}

const SEEDS = 5000
const FIRST_SEED = 1000

describe("the simulation on SQLite, at length", () => {
  it(`finds no violated invariant in ${SEEDS} seeds`, { timeout: 3_600_000 }, () =>
    node("test/sim/main.ts", "--seeds", String(SEEDS), "--from", String(FIRST_SEED)),
  )
})

describe("the planted bugs", () => {
  it("are all found", { timeout: 7_200_000 }, () => node("scripts/mutants.ts"))
})
