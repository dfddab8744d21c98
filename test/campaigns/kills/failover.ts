// How soon the work of a killed server or worker resumes elsewhere, with the default leases: from SIGKILL to the first line that the next
// attempt writes. Lanes try at the same time; each has processes and a store of its own, two of which compete for the task.

import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { withStore } from "../campaign.ts"
import { Journal } from "../journal.ts"
import { Servers } from "../servers.ts"
import { KEYED } from "../workload.ts"
import { Rng } from "../../sim/rng.ts"
import { probe } from "../../support/server.ts"

const LIMIT_MS = 15_000
const MEDIAN_MS = 9000
/** A try that takes longer ends its lane, which continues with other processes and another store. */
const GIVE_UP_MS = 60_000
const RENEWAL_MS = 2000
const POLL_MS = 20
const PROGRESS_TRIES = 100

const VICTIMS = ["server", "worker"] as const
type Victim = (typeof VICTIMS)[number]

export interface FailoverOptions {
  tries: number
  /** Number of lanes. */
  parallel: number
  seed: string
}

/** Measures `tries` kills, half of servers and half of workers. Returns the exit code. */
export const measureFailover = async ({ tries, parallel, seed }: FailoverOptions): Promise<number> => {
  const times: Record<Victim, number[]> = { server: [], worker: [] }
  const left: Record<Victim, number> = { server: Math.ceil(tries / 2), worker: Math.floor(tries / 2) }
  const all = (): number[] => [...times.server, ...times.worker]
  const tryRepeatedly = async (victim: Victim, pair: Pair): Promise<void> => {
    while (left[victim] > 0) {
      left[victim] -= 1
      const ms = await pair.failover()
      times[victim].push(ms)
      if (ms > LIMIT_MS) console.log(`VIOLATION  a ${victim} was replaced after ${seconds(ms)}`)
      if (all().length % PROGRESS_TRIES === 0) console.log(`so far: ${describe(all())}`)
      if (ms >= GIVE_UP_MS) return
    }
  }
  const lane = async (index: number): Promise<void> => {
    const rng = new Rng("failover", seed, index)
    for (const victim of index % 2 === 0 ? VICTIMS : VICTIMS.toReversed()) {
      while (left[victim] > 0) {
        await withStore(victim === "server" ? "postgres" : "sqlite", async (folder, store) => {
          const pair = await Pair.start(victim, { folder, store, rng })
          await tryRepeatedly(victim, pair)
          await pair.stop()
        })
      }
    }
  }
  await Promise.all(Array.from({ length: Math.min(parallel, tries) }, (_, index) => lane(index)))
  for (const victim of VICTIMS) console.log(`${victim}: ${describe(times[victim])}`)
  const late = all().filter((ms) => ms > LIMIT_MS).length
  const tooSlow = medianOf(all()) >= MEDIAN_MS ? 1 : 0
  console.log(`failover: ${describe(all())}`)
  console.log(`${all().length} tries, ${late + tooSlow} violations`)
  return late + tooSlow === 0 ? 0 : 1
}

const medianOf = (times: readonly number[]): number => times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)] ?? 0

const seconds = (ms: number): string => `${(ms / 1000).toFixed(1)} s`

const describe = (times: readonly number[]): string =>
  `${times.length} tries, median ${seconds(medianOf(times))}, maximum ${seconds(Math.max(0, ...times))}`

interface PairOptions {
  folder: string
  /** The variables that select the store. */
  store: Record<string, string>
  rng: Rng
}

/** Two servers, or a server and two workers; one of the two runs the task and is killed. */
class Pair {
  readonly #group: Servers
  readonly #options: PairOptions
  #tries = 0

  private constructor(group: Servers, options: PairOptions) {
    this.#group = group
    this.#options = options
  }

  static async start(victim: Victim, options: PairOptions): Promise<Pair> {
    const { folder, store } = options
    const members = victim === "server" ? { servers: 2 } : { servers: 1, workers: 2, serverArgs: ["--no-worker"] }
    const group = await Servers.start({ folder, env: store, ...members })
    await group.client.deploy({ name: "long", ...KEYED, tasks: { work: { command: longScript(folder) } } })
    return new Pair(group, options)
  }

  /** Kills the process that runs a task. Returns the milliseconds until another runs it, or until it is given up. */
  async failover(): Promise<number> {
    const { client } = this.#group
    const key = `try-${this.#tries++}`
    // Each try has a journal of its own, which stays short while it is polled.
    const journal = new Journal(join(this.#options.folder, key))
    const run = await client.trigger("long", key)
    if (!(await attemptStarts(journal, 1))) throw new Error(`attempt 1 of run ${run} has not started`)
    const holder = await probe(async () => {
      const { body } = await client.ask("GET", `/runs/${run}/tasks/work`)
      return (body["worker"] as string | null) ?? null
    })
    const isHolder = (name: string): boolean => holder === name || holder.endsWith(`:${this.#group.process(name).child.pid}`)
    const name = this.#group.names.find(isHolder)
    if (name === undefined) throw new Error(`no process of the campaign is ${holder}`)
    // The moment within the interval of renewals varies.
    await delay(this.#options.rng.next() * RENEWAL_MS)
    const killedAt = performance.now()
    await this.#group.kill(name)
    const hasResumed = await attemptStarts(journal, 2)
    const ms = performance.now() - killedAt
    if (!hasResumed) return GIVE_UP_MS
    await this.#group.start(name)
    await client.end(run)
    return ms
  }

  stop(): Promise<void> {
    return this.#group.stop()
  }
}

/** Resolves with true when the attempt has written its first line, and with false after a long time. */
const attemptStarts = (journal: Journal, attempt: number): Promise<boolean> => {
  const until = performance.now() + GIVE_UP_MS
  return probe(() => {
    if (journal.read().some((entry) => entry.attempt === attempt)) return true
    return performance.now() > until ? false : null
  }, POLL_MS)
}

/** The first attempt runs until it is killed, the others end at once. */
const longScript = (folder: string): string => `
note() { echo "$ORK_RUN_ID $ORK_TASK_NAME $ORK_ATTEMPT $ORK_ATTEMPT_ID $1 $KEY -" >> ${folder}/$KEY/journal; }
note start
[ $ORK_ATTEMPT -gt 1 ] || sleep 600
note end`
