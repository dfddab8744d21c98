// One world of the campaign: servers and workers on one store that kill themselves at failpoints and are started again, and a program
// with a durable function that is killed at any moment, while clients start runs, jobs and the function, and cancel, retry, pause and
// approve runs. When the world has had its
// kills, everything runs undisturbed until all runs have ended, and the journal is checked.

import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { checkAll } from "../checks.ts"
import { Client } from "../client.ts"
import { Journal } from "../journal.ts"
import { startProgram, startWithFailpoints } from "../ork-child.ts"
import { BULKY, CHAIN, TICKS } from "../workload.ts"
import { checkFunctions, FUNCTION, StepJournal, writeProgram } from "./functions.ts"
import { Jobs } from "./jobs.ts"
import { ANY_MOMENT, type Points } from "./points.ts"
import { Requests } from "./requests.ts"
import type { Rng } from "../../sim/rng.ts"
import { freePort } from "../../support/components/component.ts"
import type { OrkProcess } from "../../support/ork-process.ts"
import { serverAt } from "../../support/server.ts"

export interface WorldOptions {
  folder: string
  /** The variables that select the store. */
  store: Record<string, string>
  servers: number
  kills: number
  rng: Rng
  points: Points
}

export interface Outcome {
  kills: number
  /** Those of the function too. */
  runs: number
  jobs: number
  /** Acknowledged requests of users, by kind. */
  requests: Readonly<Record<string, number>>
  violations: string[]
}

const KEY = "the key of all processes of the campaign"
const IN_FLIGHT = 6
const BULKY_IN_FLIGHT = 1
const FUNCTIONS_IN_FLIGHT = 2
const WORKLOADS = [CHAIN, BULKY, TICKS]
/** A process that has not reached its failpoint so long after it was ready is killed at that moment. */
const LIFETIME_MS = { least: 1500, most: 5000 }
const START_MS = 60_000
const READY = /is ready|claims work from/

/** A process that is started again whenever it dies. */
interface Place {
  role: "server" | "worker" | "program"
  args: string[]
  cwd: string
}

export class World {
  readonly #options: WorldOptions
  readonly #journal: Journal
  readonly #steps: StepJournal
  readonly #violations: string[] = []
  #places: Place[] = []
  #client!: Client
  #kills = 0

  constructor(options: WorldOptions) {
    this.#options = options
    this.#journal = new Journal(join(options.folder, "journal"))
    this.#steps = new StepJournal(join(options.folder, "steps"))
  }

  async run(): Promise<Outcome> {
    await this.#prepare()
    const first = this.#places.map((place) => this.#start(place, null))
    await Promise.all(first.map((child) => child.printed(READY)))
    const jobs = new Jobs(this.#client, this.#journal)
    const requests = new Requests(this.#client, this.#journal)
    await requests.deploy()
    for (const workload of WORKLOADS) await this.#client.deploy(workload.definition(this.#journal))
    for (const child of first) child.kill("SIGKILL")
    await Promise.all(first.map(({ exit }) => exit))
    const last = Promise.all(this.#places.map((place) => this.#killRepeatedly(place)))
    const wanted = (): boolean => this.#wanted
    await Promise.all([
      this.#client.load(CHAIN.name, IN_FLIGHT, wanted),
      this.#client.load(BULKY.name, BULKY_IN_FLIGHT, wanted),
      this.#client.load(FUNCTION, FUNCTIONS_IN_FLIGHT, wanted),
      jobs.load(wanted),
      requests.load(wanted),
    ])
    const living = await last
    this.#violations.push(
      ...(await checkAll(this.#client, this.#journal, WORKLOADS)),
      ...(await jobs.check()),
      ...(await checkFunctions(this.#client, this.#steps)),
    )
    for (const child of living) child.kill("SIGKILL")
    await Promise.all(living.map(({ exit }) => exit))
    return {
      kills: this.#kills,
      runs: this.#client.acknowledged.size,
      jobs: jobs.count,
      requests: requests.counts,
      violations: [...this.#client.violations, ...requests.violations, ...this.#violations],
    }
  }

  get #wanted(): boolean {
    return this.#kills < this.#options.kills
  }

  async #prepare(): Promise<void> {
    const { folder, servers } = this.#options
    const ports = await Promise.all(Array.from({ length: servers }, freePort))
    const urls = ports.map((port) => `http://127.0.0.1:${port}`)
    const place = (role: Place["role"], name: string, args: string[]): Place => {
      const cwd = join(folder, name)
      mkdirSync(cwd, { recursive: true })
      return { role, args, cwd }
    }
    this.#places = [
      ...ports.map((port, i) => place("server", `server-${i}`, ["serve", "--port", String(port)])),
      place("worker", "worker", ["worker", "--server", urls.join(","), "--name", "worker"]),
      place("program", "program", [writeProgram(join(folder, "program"))]),
    ]
    this.#client = new Client(urls.map((url) => serverAt(url, KEY)))
  }

  /** Resolves with the last process, which nothing kills. */
  async #killRepeatedly(place: Place): Promise<OrkProcess> {
    const { points, rng } = this.#options
    while (this.#wanted) {
      const point = points.choose(place.role)
      const child = this.#start(place, point)
      const ready = child.printed(READY).then(
        () => true,
        () => false,
      )
      const isReady = await Promise.race([ready, delay(START_MS, false, { ref: false })])
      if (!isReady && child.child.exitCode === null && child.child.signalCode === null)
        this.#violations.push(`a ${place.role} is not ready ${START_MS / 1000} s after its start`)
      const outlived = delay(rng.int(LIFETIME_MS.least, LIFETIME_MS.most), true, { ref: false })
      const survived = await Promise.race([outlived, child.exit.then(() => false)])
      if (survived) child.kill("SIGKILL")
      const { code, signal } = await child.exit
      if (signal === "SIGKILL") {
        this.#kills++
        points.killed(place.role, survived || point === null ? ANY_MOMENT : point.split("#")[0]!)
      } else {
        this.#violations.push(`a ${place.role} ended by itself, with ${code ?? signal}: ${child.stderr.trim().slice(-500)}`)
        if (this.#violations.length > 20) throw new Error(this.#violations.join("\n"))
      }
    }
    return this.#start(place, null)
  }

  #start({ role, args, cwd }: Place, point: string | null): OrkProcess {
    const { store, points } = this.#options
    if (role === "program") return startProgram(args[0]!, { cwd, env: { ...store, JOURNAL: this.#steps.file } })
    const reported = (found: string): void => points.reported(role, found)
    return startWithFailpoints(args, { cwd, env: { ...store, ORK_API_KEY: KEY } }, { point, reported })
  }
}
