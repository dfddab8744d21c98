// usage: npm run soak [-- --minutes N] [--seed TEXT]
// Runs two servers and a worker on Postgres under load, with a fault every 10 s: a killed or paused server, a killed worker, a restart of
// Postgres, or broken connections. One server is never killed: its memory, files and connections must level off, and so must the rows per
// run. Ends with the counts, and with 1 if there was a violation.

import { randomInt } from "node:crypto"
import { setTimeout as delay } from "node:timers/promises"
import { parseArgs } from "node:util"
import { type Sample, sample, slope } from "./gauges.ts"
import { withFolder } from "../campaign.ts"
import { checkAll } from "../checks.ts"
import { Journal } from "../journal.ts"
import { FaultyPostgres } from "../outages/postgres-faults.ts"
import { Servers } from "../servers.ts"
import { PAIR, TICKS } from "../workload.ts"
import { Rng } from "../../sim/rng.ts"

const { values: flags } = parseArgs({
  options: { minutes: { type: "string", default: "120" }, seed: { type: "string", default: String(randomInt(2 ** 31)) } },
})

const minutes = Number(flags.minutes)
if (!(minutes > 0)) {
  console.error(`--minutes takes a number above 0, not ${flags.minutes}`)
  process.exit(2)
}

const IN_FLIGHT = 4
const FAULT_EVERY_MS = 10_000
const SAMPLE_EVERY_MS = 5000
const PAUSE_MS = 3000
/** A shorter soak cannot tell growth of memory from garbage. */
const MEMORY_MINUTES = 60
const MAX_MEMORY_MB_PER_HOUR = 1
const MAX_GROWTH = 10
const SETTLED = "server-0"
const VICTIM = "server-1"

console.log(`seed ${flags.seed}`)
const rng = new Rng("soak", flags.seed)
const violations: string[] = []
let faults = 0

await withFolder(async (folder) => {
  const postgres = await FaultyPostgres.start()
  const journal = new Journal(`${folder}/journal`)
  const env = { ORK_DATABASE_URL: postgres.url, ORK_OBJECT_STORE: `file:${folder}/objects` }
  const group = await Servers.start({ folder, env, servers: 2, workers: 1 })
  const { client } = group
  for (const workload of [PAIR, TICKS]) await client.deploy(workload.definition(journal))
  const begun = performance.now()
  const wanted = (): boolean => performance.now() - begun < minutes * 60_000
  const load = client.load(PAIR.name, IN_FLIGHT, wanted)

  const killAndStart = async (name: string): Promise<void> => {
    await group.kill(name)
    // The start itself may meet the next fault.
    for (;;) {
      try {
        return await group.start(name)
      } catch {
        await delay(500)
      }
    }
  }
  const faultsByName: Record<string, () => Promise<void>> = {
    "server killed": () => killAndStart(VICTIM),
    "worker killed": () => killAndStart("worker-0"),
    "server paused": async () => {
      group.process(VICTIM).kill("SIGSTOP")
      await delay(PAUSE_MS)
      group.process(VICTIM).kill("SIGCONT")
    },
    "Postgres restarted": () => postgres.restart(rng),
    "connections broken": async () => void (await postgres.disturb(rng)),
  }

  const samples: Sample[] = []
  const watch = async (): Promise<void> => {
    for (; wanted(); await delay(SAMPLE_EVERY_MS)) {
      const pid = group.process(SETTLED).child.pid!
      const found = await sample(pid, postgres.directUrl, (performance.now() - begun) / 3_600_000)
      if (found !== null) samples.push(found)
    }
  }
  const watching = watch()
  while (wanted()) {
    await delay(FAULT_EVERY_MS)
    await faultsByName[rng.pick(Object.keys(faultsByName))]!()
    faults++
  }
  await Promise.all([load, watching])
  violations.push(...(await checkAll(client, journal, [PAIR, TICKS])), ...group.ended)
  report(samples)
  console.log(`${client.acknowledged.size} runs, ${(await client.runs(TICKS.name)).size} ticks`)
  await group.stop()
  await postgres.stop()
})
for (const violation of violations) console.log(`VIOLATION  ${violation}`)
console.log(`${faults} faults, ${violations.length} violations`)
process.exit(violations.length === 0 ? 0 : 1)

function report(samples: readonly Sample[]): void {
  const late = samples.slice(Math.floor(samples.length / 4))
  const [first, last] = [late[0], late.at(-1)]
  if (first === undefined || last === undefined) return
  const memory = slope(samples, ({ memoryMb }) => memoryMb)
  const perRun = ({ rows, runs }: Sample): number => rows / runs
  console.log(
    `memory ${last.memoryMb.toFixed(0)} MB (${memory.toFixed(1)} MB per hour), files ${first.files} to ${last.files}, ` +
      `connections ${first.connections} to ${last.connections}, rows per run ${perRun(first).toFixed(1)} to ${perRun(last).toFixed(1)}`,
  )
  if (minutes >= MEMORY_MINUTES && memory > MAX_MEMORY_MB_PER_HOUR)
    violations.push(`memory grows by ${memory.toFixed(1)} MB per hour`)
  if (last.files > first.files + MAX_GROWTH) violations.push(`open files grew from ${first.files} to ${last.files}`)
  if (last.connections > first.connections + MAX_GROWTH) {
    violations.push(`connections grew from ${first.connections} to ${last.connections}`)
  }
  if (perRun(last) > 1.1 * perRun(first)) violations.push("the rows per run grew")
}
