// Several servers on a Postgres that restarts every 5 to 10 s behind a proxy that breaks connections in between.

import { setTimeout as delay } from "node:timers/promises"
import { FaultyPostgres } from "./postgres-faults.ts"
import { withFolder } from "../campaign.ts"
import { checkAll } from "../checks.ts"
import { Journal } from "../journal.ts"
import { Servers } from "../servers.ts"
import { PAIR, TICKS } from "../workload.ts"
import type { Rng } from "../../sim/rng.ts"

export interface OutageOptions {
  minutes: number
  servers: number
  rng: Rng
}

export interface OutageOutcome {
  faults: number
  violations: string[]
}

const IN_FLIGHT = 16
const RESUME_MS = 5000
const PAUSE_MS = { least: 5000, most: 10_000 }
const POLL_MS = 25

export const disturbPostgres = ({ minutes, servers, rng }: OutageOptions): Promise<OutageOutcome> =>
  withFolder(async (folder) => {
    const postgres = await FaultyPostgres.start()
    const journal = new Journal(`${folder}/journal`)
    const env = { ORK_DATABASE_URL: postgres.url, ORK_OBJECT_STORE: `file:${folder}/objects` }
    const group = await Servers.start({ folder, env, servers })
    const { client } = group
    for (const workload of [PAIR, TICKS]) await client.deploy(workload.definition(journal))
    const until = performance.now() + minutes * 60_000
    const load = client.load(PAIR.name, IN_FLIGHT, () => performance.now() < until)
    const violations: string[] = []
    const resumed: number[] = []
    while (performance.now() < until) {
      const pauseMs = rng.int(PAUSE_MS.least, PAUSE_MS.most)
      await delay(pauseMs / 2)
      await postgres.disturb(rng)
      await delay(pauseMs / 2)
      await postgres.restart(rng)
      resumed.push(await resumption(journal, violations))
    }
    await load
    violations.push(...(await checkAll(client, journal, [PAIR, TICKS])), ...group.ended)
    const runs = client.acknowledged.size
    const succeeded = [...client.acknowledged.values()].filter((run) => client.ended.get(run) === "success").length
    const tickCount = (await client.runs(TICKS.name)).size
    const slowest = (Math.max(...resumed) / 1000).toFixed(1)
    const faults = Object.values(postgres.counts).reduce((sum, n) => sum + n, 0)
    const counts = Object.entries(postgres.counts).map(([fault, n]) => `${fault} ${n}`)
    console.log(`Postgres: ${counts.join(", ")}`)
    console.log(
      `Postgres: ${succeeded} of ${runs} runs, ${tickCount} ticks, work resumed within ${slowest} s, ${violations.length} violations`,
    )
    await group.stop()
    await postgres.stop()
    return { faults, violations }
  })

/** Returns the milliseconds until a task starts. */
const resumption = async (journal: Journal, violations: string[]): Promise<number> => {
  const begun = performance.now()
  const starts = (): number => journal.read().filter(({ phase }) => phase === "start").length
  const before = starts()
  while (starts() === before) {
    if (performance.now() - begun > 12 * RESUME_MS) break
    await delay(POLL_MS)
  }
  const ms = performance.now() - begun
  if (ms > RESUME_MS) violations.push(`no task started for ${(ms / 1000).toFixed(1)} s after Postgres was back`)
  return ms
}
