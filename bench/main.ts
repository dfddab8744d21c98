// usage: npm run bench [-- noop fanout foreach groups startup log functions workers http-jobs] [-- --rounds N]
//        npm run bench -- guard    the check before a release, in five minutes: ends with 1 when a figure misses its target
//        npm run bench -- peers    compares Ork with other products (peers/main.ts)
// Every figure is a ratio to a floor (a bare prototype, or a fixed budget) that is measured in the same run, because machines are noisy:
// floor and Ork take turns, each in a fresh process, and medians are compared. Prints the JSON lines of all rounds, then a table.

import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { tempFolder } from "./support.ts"
import { createDatabase } from "../test/support/components/postgres.ts"
import { startPostgres } from "../test/support/components/postgres-server.ts"

const HISTORY = 1_000_000

if (process.argv[2] === "peers") {
  await import("./peers/main.ts")
  process.exit()
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: "string", default: "3" }, history: { type: "boolean", default: true } },
  allowNegative: true,
})
const rounds = Number(values.rounds)
const guard = positionals.includes("guard")
const GUARDED = ["noop", "fanout", "startup", "functions"]
const wanted = (name: string): boolean =>
  guard ? GUARDED.includes(name) : positionals.length === 0 || positionals.includes(name)
const table: { figure: string; ork: number; floor: number; ratio: string; target: string }[] = []

/** The Node options of `bin/ork serve`, for measurements of memory. */
const AS_SERVER = { NODE_OPTIONS: "--max-semi-space-size=8" }

const run = (script: string, args: string[] = [], env: NodeJS.ProcessEnv = {}): string => {
  const folder = tempFolder()
  const path = join(import.meta.dirname, script)
  const child = spawnSync(process.execPath, [path, ...args], {
    cwd: folder.path,
    env: { ...process.env, ...env },
    encoding: "utf8",
  })
  folder.remove()
  if (child.status !== 0)
    throw new Error(`${script} ${args.join(" ")} ended with ${child.status}: ${child.stderr}${child.stdout}`)
  return child.stdout
}

const line = (script: string, args: string[] = [], env: NodeJS.ProcessEnv = {}): { [field: string]: number } => {
  const printed = run(script, args, env).trim().split("\n").at(-1)!
  console.log(printed)
  return JSON.parse(printed) as { [field: string]: number }
}

const floorOf = (script: string, args: string[], env: NodeJS.ProcessEnv = {}): { rate: number; step: number } => {
  const printed = run(script, args, env)
  const floor = {
    rate: Number(/e2e_per_s: (\d+)/.exec(printed)![1]),
    step: Number(/chain ms\/step ([\d.]+)/.exec(printed)![1]),
  }
  console.log(JSON.stringify({ floor: script, ...floor }))
  return floor
}

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!

const compare = (figure: string, ork: number[], floor: number[], target: string): void => {
  const [a, b] = [median(ork), median(floor)]
  table.push({ figure, ork: a, floor: b, ratio: (a / b).toFixed(3), target })
}

interface Rounds {
  ork: { [field: string]: number }[]
  floor: { rate: number; step: number }[]
}

const noop = async (
  name: string,
  url: () => Promise<{ url: string; drop(): Promise<void> }>,
  script: string,
  rateTarget: string,
): Promise<void> => {
  const seen: Rounds = { ork: [], floor: [] }
  for (let round = 0; round < rounds; round++) {
    const [fresh, bare] = [await url(), await url()]
    seen.floor.push(floorOf(script, name === "SQLite" ? ["0", "256"] : ["256"], { DATABASE_URL: bare.url }))
    seen.ork.push(line("noop.ts", [fresh.url]))
    for (const database of [fresh, bare]) await database.drop()
  }
  const of = (rows: { [field: string]: number }[], field: string): number[] => rows.map((row) => row[field]!)
  const steps = seen.floor.map((row) => row.step)
  const rates = seen.floor.map((row) => row.rate)
  compare(`${name}: no-op tasks/s, relative to the prototype`, of(seen.ork, "cold_tasks_per_s"), rates, rateTarget)
  compare(`${name}: no-op tasks/s after warm-up, relative to the prototype`, of(seen.ork, "tasks_per_s"), rates, rateTarget)
  compare(`${name}: chain, ms per step, relative to the prototype`, of(seen.ork, "chain_ms_per_step"), steps, "<= 1.5")
  compare(`${name}: transactions per task`, of(seen.ork, "transactions_per_task"), [1], "< 0.02")
  if (guard || !values.history) return
  const [empty, full] = [await url(), await url()]
  const measured = line("history-effect.ts", [empty.url, full.url, String(HISTORY)])
  for (const database of [empty, full]) await database.drop()
  const both = (figure: string, field: string, target: string): void =>
    compare(
      `${name}: ${figure} after 1,000,000 finished tasks, relative to none`,
      [measured[`history_${field}`]!],
      [measured[field]!],
      target,
    )
  both("no-op tasks/s", "tasks_per_s", ">= 0.85")
  both("chain, ms per step", "chain_ms_per_step", "<= 1.15")
}

if (wanted("noop")) {
  await noop("SQLite", () => Promise.resolve({ url: "sqlite", drop: () => Promise.resolve() }), "floor/sqlite.mjs", ">= 0.5")
  // Unlike that of the tests, this server syncs what it commits.
  process.env["TEST_DATABASE_URL"] ??= (await startPostgres({ durable: true })).url
  await noop("Postgres", createDatabase, "floor/postgres.mjs", ">= 0.6")
}
if (wanted("fanout")) {
  const [small, large] = [line("fanout.ts"), line("fanout.ts", ["500"])]
  compare(
    "fan-out of 1,000 processes/s, relative to the bare helper",
    [small["tasks_per_s"]!],
    [small["bare_helper_per_s"]!],
    ">= 0.7",
  )
  compare(
    "fan-out of 1,000 processes/s with 500 MB of heap, relative to the bare helper",
    [large["tasks_per_s"]!],
    [large["bare_helper_per_s"]!],
    ">= 0.7",
  )
}
if (wanted("foreach")) {
  const { peak_rss_mb } = line("foreach.ts", [], AS_SERVER)
  compare("foreach of 100,000: peak memory in MB, budget 350", [peak_rss_mb!], [350], "< 1")
}
if (wanted("groups")) {
  const [few, many] = [line("groups.ts", ["30"]), line("groups.ts")]
  compare(
    "groups of 300 × 300: live heap in MB, relative to 30 × 300",
    [many["live_heap_mb"]!],
    [few["live_heap_mb"]!],
    "<= 1.2",
  )
}
if (wanted("startup")) {
  const { ork_run_ms } = line("startup.ts")
  compare("ork run of one task in ms, budget 400", [ork_run_ms!], [400], "< 1")
}
if (wanted("workers")) {
  const { per_s } = line("workers.ts", ["noop"])
  compare("worker over HTTP: no-op tasks/s, target 2000", [per_s!], [2000], ">= 1")
  const functions = line("workers.ts", ["functions"])
  compare("worker over HTTP: no-op functions/s, target 2000", [functions["per_s"]!], [2000], ">= 1")
  const { server_mib, worker_mib } = line("workers.ts", ["sleep"])
  compare("500 processes on a worker: server memory in MiB, budget 30", [server_mib!], [30], "< 1")
  compare("500 processes on a worker: worker memory in MiB, budget 60", [worker_mib!], [60], "< 1")
}

if (wanted("http-jobs")) {
  process.env["TEST_DATABASE_URL"] ??= (await startPostgres({ durable: true })).url
  for (const store of ["sqlite", "postgres"]) {
    const { http_per_s, direct_per_s } = line("http-jobs.ts", [store, "20000", String(rounds)])
    compare(`${store}: jobs/s over HTTP, relative to Ork.open`, [http_per_s!], [direct_per_s!], ">= 0.4")
  }
}

if (wanted("log")) {
  const { rss_growth_mb, loop_busy_ms, exact } = line("log.ts")
  if (!exact) throw new Error("a log of 1 GiB did not arrive byte for byte")
  compare("log of 1 GiB: growth of server memory in MB, budget 64", [rss_growth_mb!], [64], "< 1")
  compare("log of 1 GiB: longest block of the event loop in ms, budget 100", [loop_busy_ms!], [100], "< 1")
  const onWorker = line("log.ts", ["--worker"])
  if (!onWorker["exact"]) throw new Error("a log of 1 GiB on a worker did not arrive byte for byte")
  compare("log of 1 GiB on a worker: growth of server memory in MB, budget 64", [onWorker["rss_growth_mb"]!], [64], "< 1")
  compare(
    "log of 1 GiB on a worker: growth of worker memory in MB, budget 64",
    [onWorker["worker_rss_growth_mb"]!],
    [64],
    "< 1",
  )
  compare(
    "log of 1 GiB on a worker: longest block of an event loop in ms, budget 100",
    [onWorker["loop_busy_ms"]!],
    [100],
    "< 1",
  )
}
for (const [language, floor] of [
  ["node", 3000],
  ["python", 1500],
] as const) {
  if (!wanted("functions")) break
  const { tasks_per_s, start_p50_ms } = line("functions.ts", [language])
  compare(`functions in ${language}: tasks/s, target ${floor}`, [tasks_per_s!], [floor], ">= 1")
  compare(`functions in ${language}: ms from dispatch to start, budget 3`, [start_p50_ms!], [3], "< 1")
}
console.table(table)
const reaches = (ratio: number, target: string): boolean => {
  const [sign, limit] = target.split(" ") as ["<" | "<=" | ">=", string]
  return sign === ">=" ? ratio >= Number(limit) : sign === "<=" ? ratio <= Number(limit) : ratio < Number(limit)
}
const missed = table.filter(({ ratio, target }) => !reaches(Number(ratio), target))
for (const { figure, ratio, target } of missed) console.log(`missed: ${figure}: ${ratio}, target ${target}`)
console.log(`${table.length - missed.length} figures reach their target, ${missed.length} miss it`)
process.exit(guard && missed.length > 0 ? 1 : 0)
