// usage: npm run kills [-- --kills N] [--store sqlite|postgres] [--seed TEXT] [--failover [--tries N] [--parallel N]]
// Kills servers, workers and `ork run` of the built command with SIGKILL at failpoints, and a program with a durable function at any
// moment, on both stores, while clients start runs, jobs and the function; and compares what tasks wrote and what clients were told.
// Ends with the counts, and with 1 if there was a violation. With `--failover`, measures how soon the work of a killed server or worker
// resumes.

import { randomInt } from "node:crypto"
import { parseArgs } from "node:util"
import { measureFailover } from "./failover.ts"
import { killLocalRuns } from "./local-runs.ts"
import { Points } from "./points.ts"
import { type Outcome, World } from "./world.ts"
import { count, withStore } from "../campaign.ts"
import { Rng } from "../../sim/rng.ts"

const { values: flags } = parseArgs({
  options: {
    kills: { type: "string", default: "1000" },
    store: { type: "string" },
    seed: { type: "string", default: String(randomInt(2 ** 31)) },
    failover: { type: "boolean", default: false },
    tries: { type: "string", default: "100" },
    parallel: { type: "string", default: "10" },
  },
})

/** Kills per world. */
const WORLD_KILLS = 40

console.log(`seed ${flags.seed}`)
if (flags.failover) {
  const options = { tries: count("tries", flags.tries), parallel: count("parallel", flags.parallel), seed: flags.seed }
  process.exit(await measureFailover(options))
}

const total = count("kills", flags.kills)
const points = new Points(new Rng("points", flags.seed))
const stores = (["sqlite", "postgres"] as const).filter((store) => flags.store === undefined || store === flags.store)
const sum: Outcome = { kills: 0, runs: 0, jobs: 0, violations: [] }
for (let world = 0; sum.kills < total; world++) {
  const store = stores[world % stores.length]!
  const local = world % 4 >= 2
  const kills = Math.min(WORLD_KILLS, total - sum.kills)
  const rng = new Rng("world", flags.seed, world)
  const begun = performance.now()
  const outcome = await withStore(store, (folder, variables) => {
    const options = { folder, store: variables, kills, rng, points }
    // A killed `ork run` can be resumed when its lease has expired.
    if (local) return killLocalRuns({ ...options, store: { ...variables, ORK_SERVER_LEASE: "4s" } })
    return new World({ ...options, servers: store === "postgres" ? 2 : 1 }).run()
  })
  sum.kills += outcome.kills
  sum.runs += outcome.runs
  sum.jobs += outcome.jobs
  sum.violations.push(...outcome.violations)
  const seconds = ((performance.now() - begun) / 1000).toFixed(0)
  const processes = local ? "ork run" : "servers, workers and a program"
  const done = `${outcome.runs} runs, ${outcome.jobs} jobs`
  console.log(`${store}, ${processes}: ${outcome.kills} kills, ${done}, ${outcome.violations.length} violations, ${seconds} s`)
  for (const violation of outcome.violations) console.log(`VIOLATION  ${violation}`)
}
const { killed, reached } = points.coverage()
const areas = Object.entries(points.areas()).map(([area, kills]) => `${area} ${kills}`)
console.log(
  `kills by area: ${areas.join(", ")}; ${killed} of ${reached} failpoints killed a process; ${sum.runs} runs, ${sum.jobs} jobs`,
)
console.log(`${sum.kills} kills, ${sum.violations.length} violations`)
process.exit(sum.violations.length === 0 ? 0 : 1)
