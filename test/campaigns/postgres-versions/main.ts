// usage: npm run postgres-versions [-- --only 14,15] [--seeds N] [--from K]
// Downloads the newest Postgres of each supported major version with npm, starts one after the other, and runs the conformance suite,
// the upgrade test and N worlds of the simulation on it. Ends with a line per version, and with 1 if something failed.

import { spawn } from "node:child_process"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { parseArgs } from "node:util"
import { startPostgres } from "../../support/components/postgres-server.ts"
import { count } from "../campaign.ts"
import { download, publishedVersions } from "./versions.ts"

const { values: flags } = parseArgs({
  options: {
    only: { type: "string" },
    seeds: { type: "string", default: "20" },
    from: { type: "string", default: "1" },
  },
})
const REPO = join(import.meta.dirname, "../../..")
const TESTS = ["src/store/postgres/conformance.test.ts", "src/store/upgrade.test.ts"]
const SEEDS = String(count("seeds", flags.seeds))
const FROM = String(count("from", flags.from))

interface Part {
  ok: boolean
  /** The last line that says how it went. */
  line: string
  output: string
}

/** Runs node on a server. `said`: the line of the output with the counts. */
const runOn = async (url: string, args: string[], said: RegExp): Promise<Part> => {
  const env = { ...process.env, TEST_DATABASE_URL: url, NO_COLOR: "1" }
  const child = spawn(process.execPath, args, { cwd: REPO, env, stdio: ["ignore", "pipe", "pipe"] })
  const [output, errors, code] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    new Promise<number | null>((resolve) => child.once("exit", resolve)),
  ])
  const line = said.exec(output)?.[0] ?? `ended with ${code}`
  return { ok: code === 0, line, output: `${output}\n${errors}` }
}

const check = async (version: string): Promise<{ ok: boolean; line: string }> => {
  const begun = performance.now()
  const server = await startPostgres({ native: await download(version) })
  try {
    const vitest = [join(REPO, "node_modules/vitest/vitest.mjs"), "run", "--maxWorkers=1", ...TESTS]
    const tests = await runOn(server.url, vitest, /^\d+ passed, \d+ failed.*$/m)
    const sim = ["test/sim/main.ts", "--store", "postgres", "--threads", "1", "--seeds", SEEDS, "--from", FROM]
    const worlds = await runOn(server.url, sim, /^sim: .*$/m)
    for (const part of [tests, worlds]) if (!part.ok) console.log(part.output)
    const seconds = ((performance.now() - begun) / 1000).toFixed(0)
    const line = `Postgres ${version.split("-")[0]}: tests: ${tests.line}; simulation: ${worlds.line}; ${seconds} s`
    return { ok: tests.ok && worlds.ok, line }
  } finally {
    await server.stop()
  }
}

const wanted = flags.only?.split(",")
const versions = (await publishedVersions()).filter((version) => wanted?.includes(version.split(".")[0]!) ?? true)
const results: { ok: boolean; line: string }[] = []
for (const version of versions) {
  console.log(`Postgres ${version}`)
  results.push(await check(version).catch((error: Error) => ({ ok: false, line: `Postgres ${version}: ${error.message}` })))
}
for (const { ok, line } of results) console.log(`${ok ? "ok" : "FAILED"}  ${line}`)
process.exit(results.length > 0 && results.every(({ ok }) => ok) ? 0 : 1)
