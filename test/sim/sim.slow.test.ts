import { execFile } from "node:child_process"
import { promisify } from "node:util"
import { describe, it } from "vitest"

const run = promisify(execFile)
const SEEDS = 5000
const HALF = SEEDS / 2

describe("the simulation, at length", () => {
  it(`keeps every invariant over ${SEEDS} seeds`, { timeout: 3_600_000 }, async () => {
    const play = (from: number) =>
      run(process.execPath, ["test/sim/main.ts", "--seeds", String(HALF), "--from", String(from)]).catch(
        (error: { stdout: string }) => {
          throw new Error(error.stdout)
        },
      )
    await Promise.all([play(1000), play(1000 + HALF)])
  })

  it("finds every planted bug", { timeout: 3_600_000 }, async () => {
    await run(process.execPath, ["scripts/mutants.ts"]).catch((error: { stdout: string }) => {
      throw new Error(error.stdout)
    })
  })
})
