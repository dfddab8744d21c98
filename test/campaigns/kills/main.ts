// usage: npm run kills [-- --kills N] [--store sqlite|postgres] [--only servers|run] [--seed TEXT] [--parallel N] [--failover [--tries N]]
// Kills servers, workers and `ork run` of the built command with SIGKILL at failpoints, and a program with a durable function at any
// moment, on both stores, in worlds of N kills each (60), of which N run at a time (2), while clients start runs, jobs and the function, and cancel, retry, pause and approve
// runs; and compares what tasks wrote and what clients were told. Ends with the failpoints that killed and those that did not, with the
// counts, and with 1 if there was a violation. With `--failover`, measures how soon the work of a killed server or worker resumes.

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
    parallel: { type: "string" },
    "world-kills": { type: "string", default: "60" },
    only: { type: "string" },
  },
})

console.log(`seed ${flags.seed}`)
if (flags.failover) {
  const options = { tries: count("tries", flags.tries), parallel: count("parallel", flags.parallel ?? "10"), seed: flags.seed }
  process.exit(await measureFailover(options))
}

const total = count("kills", flags.kills)
const worldKills = count("world-kills", flags["world-kills"])
const points = new Points(new Rng("points", flags.seed))
const stores = (["sqlite", "postgres"] as const).filter((store) => flags.store === undefined || store === flags.store)
const kinds = (["servers", "ork run"] as const).filter((kind) => flags.only === undefined || kind.endsWith(flags.only))
if (stores.length * kinds.length === 0) {
  console.error("--store takes sqlite or postgres, and --only servers or run")
  process.exit(2)
}
const sum = { kills: 0, runs: 0, jobs: 0, violations: 0 }
const requests: Record<string, number> = {}
let worlds = 0
let begunKills = 0

const play = async (world: number, kills: number): Promise<void> => {
  const store = stores[world % stores.length]!
  const kind = kinds[Math.floor(world / stores.length) % kinds.length]!
  const rng = new Rng("world", flags.seed, world)
  const begun = performance.now()
  const outcome = await withStore(store, (folder, variables): Promise<Outcome> => {
    const options = { folder, store: variables, kills, rng, points }
    // A killed `ork run` can be resumed when its lease has expired.
    if (kind === "ork run") return killLocalRuns({ ...options, store: { ...variables, ORK_SERVER_LEASE: "4s" } })
    return new World({ ...options, servers: store === "postgres" ? 2 : 1 }).run()
  })
  sum.kills += outcome.kills
  sum.runs += outcome.runs
  sum.jobs += outcome.jobs
  sum.violations += outcome.violations.length
  for (const [name, n] of Object.entries(outcome.requests)) requests[name] = (requests[name] ?? 0) + n
  const seconds = ((performance.now() - begun) / 1000).toFixed(0)
  const processes = kind === "ork run" ? kind : "servers, workers and a program"
  const done = `${outcome.runs} runs, ${outcome.jobs} jobs`
  console.log(`${store}, ${processes}: ${outcome.kills} kills, ${done}, ${outcome.violations.length} violations, ${seconds} s`)
  for (const violation of outcome.violations) console.log(`VIOLATION  ${violation}`)
}

const lane = async (): Promise<void> => {
  while (begunKills < total) {
    const kills = Math.min(worldKills, total - begunKills)
    begunKills += kills
    await play(worlds++, kills)
  }
}
await Promise.all(Array.from({ length: count("parallel", flags.parallel ?? "2") }, lane))

const { killed, spared, neverReached } = points.coverage()
console.log(`killed: ${killed.map(([point, kills]) => `${point} ${kills}`).join(", ")}`)
console.log(`reached, but killed nothing: ${spared.join(", ")}`)
console.log(`never reached: ${neverReached.join(", ")}`)
const listed = (counts: Record<string, number>): string =>
  Object.entries(counts)
    .map(([name, n]) => `${name} ${n}`)
    .join(", ")
console.log(
  `kills by area: ${listed(points.areas())}; ${killed.length} of ${killed.length + spared.length} failpoints killed a process`,
)
console.log(`${sum.runs} runs, ${sum.jobs} jobs; requests: ${listed(requests)}`)
console.log(`${sum.kills} kills, ${sum.violations} violations`)
process.exit(sum.violations === 0 ? 0 : 1)
