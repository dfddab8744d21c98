// Several servers on a Postgres that restarts every 5 to 10 s behind a proxy that breaks connections in between.

import { FaultyPostgres } from "./postgres-faults.ts"
import { longestGap } from "./work-gaps.ts"
import { withFolder } from "../campaign.ts"
import { checkAll } from "../checks.ts"
import { Journal } from "../journal.ts"
import { Servers } from "../servers.ts"
import { PAIR, TICKS } from "../workload.ts"
import type { Rng } from "../../sim/rng.ts"

export interface OutageOptions {
  /** The faults and the load go on for this long, and until this number of runs was started, but not for more than twice as long. */
  minutes: number
  runs: number
  servers: number
  /** Runs that the client keeps in flight. */
  inFlight: number
  rng: Rng
}

export interface OutageOutcome {
  faults: number
  violations: string[]
}

const RESUME_MS = 5000
const PAUSE_MS = { least: 5000, most: 10_000 }

export const disturbPostgres = ({ minutes, runs, servers, inFlight, rng }: OutageOptions): Promise<OutageOutcome> =>
  withFolder(async (folder) => {
    const postgres = await FaultyPostgres.start()
    const journal = new Journal(`${folder}/journal`)
    const env = { ORK_DATABASE_URL: postgres.url, ORK_OBJECT_STORE: `file:${folder}/objects` }
    const group = await Servers.start({ folder, env, servers })
    const { client } = group
    for (const workload of [PAIR, TICKS]) await client.deploy(workload.definition(journal))
    const begun = performance.now()
    const wanted = (): boolean => {
      const passed = (performance.now() - begun) / 60_000
      return passed < minutes || (client.acknowledged.size < runs && passed < 2 * minutes)
    }
    const load = client.load(PAIR.name, inFlight, wanted)
    const violations: string[] = []
    const gaps: Record<string, number[]> = {}
    const watch = async (fault: string, ms: number): Promise<void> => {
      const gap = await longestGap(journal, { ms, giveUpMs: 12 * RESUME_MS })
      ;(gaps[fault] ??= []).push(gap)
      if (gap > RESUME_MS) violations.push(`no task started for ${seconds(gap)} after this fault: ${fault}`)
    }
    while (wanted()) {
      const pauseMs = rng.int(PAUSE_MS.least, PAUSE_MS.most)
      await watch(await postgres.disturb(rng), pauseMs / 2)
      await postgres.restart(rng)
      await watch("restart", pauseMs / 2)
    }
    await load
    const loadMinutes = ((performance.now() - begun) / 60_000).toFixed(1)
    violations.push(...(await checkAll(client, journal, [PAIR, TICKS])), ...group.ended)
    const started = client.acknowledged.size
    const succeeded = [...client.acknowledged.values()].filter((run) => client.ended.get(run) === "success").length
    const tickCount = (await client.runs(TICKS.name)).size
    if (succeeded < runs) violations.push(`${succeeded} runs succeeded within ${loadMinutes} minutes, and ${runs} were wanted`)
    const faults = Object.values(postgres.counts).reduce((sum, n) => sum + n, 0)
    const described = Object.entries(gaps).map(
      ([fault, each]) => `${fault} ${each.length} (at most ${seconds(Math.max(...each))})`,
    )
    console.log(`Postgres: faults, and the longest time without a start of a task after them: ${described.join(", ")}`)
    console.log(
      `Postgres: ${succeeded} of ${started} runs (${runs} wanted) and ${tickCount} ticks in ${loadMinutes} minutes, ${violations.length} violations`,
    )
    await group.stop()
    await postgres.stop()
    return { faults, violations }
  })

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`
