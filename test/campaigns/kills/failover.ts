// How soon the work of a killed server or worker resumes elsewhere, with the default leases: from SIGKILL to the first line that the next
// attempt writes. Lanes try at the same time; each has processes and a store of its own, two of which compete for the task.

import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { withStore } from "../campaign.ts"
import { Journal } from "../journal.ts"
import { Servers } from "../servers.ts"
import { KEYED } from "../workload.ts"
import { probe } from "../../support/server.ts"

const LANES = 6
const LIMIT_MS = 15_000
const MEDIAN_MS = 9000
const GIVE_UP_MS = 60_000
const RENEWAL_MS = 2000

type Victim = "server" | "worker"

/** Measures `tries` kills, half of servers and half of workers. Returns the exit code. */
export const measureFailover = async (tries: number): Promise<number> => {
  const times: Record<Victim, number[]> = { server: [], worker: [] }
  let left = tries
  const lane = (victim: Victim): Promise<void> =>
    withStore(victim === "server" ? "postgres" : "sqlite", async (folder, store) => {
      const pair = await Pair.start(victim, folder, store)
      while (left-- > 0) times[victim].push(await pair.failover())
      await pair.stop()
    })
  await Promise.all(Array.from({ length: Math.min(LANES, tries) }, (_, i) => lane(i % 2 === 0 ? "server" : "worker")))
  for (const victim of ["server", "worker"] as const) console.log(`${victim}: ${describe(times[victim])}`)
  const all = [...times.server, ...times.worker]
  const late = all.filter((ms) => ms > LIMIT_MS).length
  const tooSlow = medianOf(all) >= MEDIAN_MS ? 1 : 0
  console.log(`failover: ${describe(all)}`)
  console.log(`${all.length} tries, ${late + tooSlow} violations`)
  return late + tooSlow === 0 ? 0 : 1
}

const medianOf = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`

const describe = (times: readonly number[]): string =>
  `${times.length} tries, median ${seconds(medianOf(times))}, maximum ${seconds(Math.max(0, ...times))}`

/** Two servers, or a server and two workers; one of the two runs the task and is killed. */
class Pair {
  readonly #group: Servers
  readonly #journal: Journal
  #tries = 0

  private constructor(group: Servers, journal: Journal) {
    this.#group = group
    this.#journal = journal
  }

  static async start(victim: Victim, folder: string, env: Record<string, string>): Promise<Pair> {
    const members = victim === "server" ? { servers: 2 } : { servers: 1, workers: 2, serverArgs: ["--no-worker"] }
    const group = await Servers.start({ folder, env, ...members })
    const journal = new Journal(join(folder, "journal"))
    await group.client.deploy({ name: "long", ...KEYED, tasks: { work: { command: longScript(journal.file) } } })
    return new Pair(group, journal)
  }

  /** Kills the process that runs a task. Returns the milliseconds until another runs it. */
  async failover(): Promise<number> {
    const { client } = this.#group
    const run = await client.trigger("long", `try-${this.#tries++}`)
    await this.#attemptStarts(run, 1)
    const holder = await probe(async () => {
      const { body } = await client.ask("GET", `/runs/${run}/tasks/work`)
      return (body["worker"] as string | null) ?? null
    })
    const isHolder = (name: string): boolean => holder === name || holder.endsWith(`:${this.#group.process(name).child.pid}`)
    const name = this.#group.names.find(isHolder)
    if (name === undefined) throw new Error(`no process of the campaign is ${holder}`)
    // The moment within the interval of renewals varies.
    await delay(Math.random() * RENEWAL_MS)
    const killedAt = performance.now()
    await this.#group.kill(name)
    await this.#attemptStarts(run, 2)
    const ms = performance.now() - killedAt
    await this.#group.start(name)
    await client.end(run)
    return ms
  }

  #attemptStarts(run: string, attempt: number): Promise<true> {
    const until = performance.now() + GIVE_UP_MS
    return probe(() => {
      if (performance.now() > until) throw new Error(`attempt ${attempt} of run ${run} has not started`)
      return this.#journal.read().some((entry) => entry.run === run && entry.attempt === attempt) ? true : null
    }, 20)
  }

  stop(): Promise<void> {
    return this.#group.stop()
  }
}

/** The first attempt runs until it is killed, the others end at once. */
const longScript = (file: string): string => `
note() { echo "$ORK_RUN_ID $ORK_TASK_NAME $ORK_ATTEMPT $ORK_ATTEMPT_ID $1 - -" >> ${file}; }
note start
[ $ORK_ATTEMPT -gt 1 ] || sleep 600
note end`
