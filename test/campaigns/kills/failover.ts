// How soon the work of a killed server or worker resumes elsewhere, with the default leases: from SIGKILL to the first line that the next
// attempt writes. Lanes try at the same time; each has processes and a store of its own, two of which compete for the task.

import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { withStore } from "../campaign.ts"
import { Client } from "../client.ts"
import { Journal } from "../journal.ts"
import { startChild } from "../ork-child.ts"
import { KEYED } from "../workload.ts"
import { freePort } from "../../support/component.ts"
import type { OrkProcess } from "../../support/ork-process.ts"
import { probe, serverAt } from "../../support/server.ts"

const KEY = "the key of all processes of the campaign"
const LANES = 6
const LIMIT_MS = 15_000
const MEDIAN_MS = 9000
const GIVE_UP_MS = 60_000
const READY = /is ready at|claims work from/

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
  readonly #journal: Journal
  readonly #client: Client
  readonly #others: OrkProcess[]
  readonly #members: OrkProcess[] = []
  readonly #startMember: (index: number) => Promise<OrkProcess>
  #tries = 0

  private constructor(parts: {
    journal: Journal
    client: Client
    others: OrkProcess[]
    startMember(index: number): Promise<OrkProcess>
  }) {
    this.#journal = parts.journal
    this.#client = parts.client
    this.#others = parts.others
    this.#startMember = parts.startMember
  }

  static async start(victim: Victim, folder: string, store: Record<string, string>): Promise<Pair> {
    const env = { ...store, ORK_API_KEY: KEY }
    const journal = new Journal(join(folder, "journal"))
    const ports = await Promise.all(Array.from({ length: victim === "server" ? 2 : 1 }, freePort))
    const urls = ports.map((port) => `http://127.0.0.1:${port}`)
    const start = async (name: string, args: string[]): Promise<OrkProcess> => {
      const cwd = join(folder, name)
      mkdirSync(cwd, { recursive: true })
      const child = startChild(args, { cwd, env })
      await child.printed(READY)
      return child
    }
    const serve = (name: string, port: number, ...more: string[]) => start(name, ["serve", "--port", String(port), ...more])
    const startMember = (index: number): Promise<OrkProcess> =>
      victim === "server"
        ? serve(`server-${index}`, ports[index]!)
        : start(`worker-${index}`, ["worker", "--server", urls.join(","), "--name", `worker-${index}`])
    const others = victim === "worker" ? [await serve("server", ports[0]!, "--no-worker")] : []
    const client = new Client(urls.map((url) => serverAt(url, KEY)))
    const pair = new Pair({ journal, client, others, startMember })
    for (const index of [0, 1]) pair.#members.push(await startMember(index))
    await client.deploy({ name: "long", ...KEYED, tasks: { work: { command: longScript(journal.file) } } })
    return pair
  }

  /** Kills the process that runs a task. Returns the milliseconds until another runs it. */
  async failover(): Promise<number> {
    const run = await this.#client.trigger("long", `try-${this.#tries++}`)
    await this.#attemptStarts(run, 1)
    const holder = await probe(async () => {
      const { body } = await this.#client.ask("GET", `/runs/${run}/tasks/work`)
      return (body["worker"] as string | null) ?? null
    })
    const index = this.#members.findIndex(({ child }, i) => holder === `worker-${i}` || holder.endsWith(`:${child.pid}`))
    if (index === -1) throw new Error(`no process of the campaign is ${holder}`)
    // The moment within the interval of renewals varies.
    await delay(Math.random() * 2000)
    const killedAt = performance.now()
    this.#members[index]!.kill("SIGKILL")
    await this.#attemptStarts(run, 2)
    const ms = performance.now() - killedAt
    this.#members[index] = await this.#startMember(index)
    await this.#client.end(run)
    return ms
  }

  #attemptStarts(run: string, attempt: number): Promise<true> {
    const until = performance.now() + GIVE_UP_MS
    return probe(() => {
      if (performance.now() > until) throw new Error(`attempt ${attempt} of run ${run} has not started`)
      return this.#journal.read().some((entry) => entry.run === run && entry.attempt === attempt) ? true : null
    }, 20)
  }

  async stop(): Promise<void> {
    const all = [...this.#members, ...this.#others]
    for (const child of all) child.kill("SIGKILL")
    await Promise.all(all.map(({ exit }) => exit))
  }
}

/** The first attempt runs until it is killed, the others end at once. */
const longScript = (file: string): string => `
note() { echo "$ORK_RUN_ID $ORK_TASK_NAME $ORK_ATTEMPT $ORK_ATTEMPT_ID $1 - -" >> ${file}; }
note start
[ $ORK_ATTEMPT -gt 1 ] || sleep 600
note end`
