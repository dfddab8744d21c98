// usage: npm run outages [-- --minutes N] [--runs N] [--in-flight N] [--servers N] [--seed TEXT] [--only postgres|storage] [--fault TEXT]
// Disturbs what servers depend on while a client triggers runs and a schedule ticks. Postgres restarts every 5 to 10 s, and its connections
// are cut, left half open, slowed down, or lose replies; then disks are full or read-only, and object stores silent, slow or lossy
// (`--fault` selects some of these by a part of their name). The part with Postgres lasts until both the minutes and the runs are reached;
// fewer runs after twice the minutes are a violation. Ends with the counts, and with 1 if there was a violation.

import { randomInt } from "node:crypto"
import { parseArgs } from "node:util"
import { disturbPostgres } from "./postgres-outages.ts"
import { disturbStorage } from "./storage-outages.ts"
import { count } from "../campaign.ts"
import { Rng } from "../../sim/rng.ts"

const { values: flags } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    runs: { type: "string", default: "5000" },
    "in-flight": { type: "string", default: "48" },
    servers: { type: "string", default: "3" },
    seed: { type: "string", default: String(randomInt(2 ** 31)) },
    only: { type: "string" },
    fault: { type: "string" },
  },
})

const minutes = Number(flags.minutes)
if (!(minutes > 0)) {
  console.error(`--minutes takes a number above 0, not ${flags.minutes}`)
  process.exit(2)
}
console.log(`seed ${flags.seed}`)
const rng = new Rng("outages", flags.seed)
let faults = 0
let violations = 0
const parts = {
  postgres: () =>
    disturbPostgres({
      minutes,
      runs: count("runs", flags.runs),
      servers: count("servers", flags.servers),
      inFlight: count("in-flight", flags["in-flight"]),
      rng,
    }),
  storage: () => disturbStorage(flags.fault),
}
for (const [name, disturb] of Object.entries(parts)) {
  if (flags.only !== undefined && flags.only !== name) continue
  const outcome = await disturb()
  faults += outcome.faults
  violations += outcome.violations.length
  for (const violation of outcome.violations) console.log(`VIOLATION  ${violation}`)
}
console.log(`${faults} outages, ${violations} violations`)
process.exit(violations === 0 ? 0 : 1)
