// Servers of the built command on one store, on fixed ports, for a campaign that disturbs what is around them.

import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { Client } from "./client.ts"
import { type ChildOptions, startChild } from "./ork-child.ts"
import { freePort } from "../support/components/component.ts"
import type { OrkProcess } from "../support/ork-process.ts"
import { serverAt } from "../support/server.ts"

const KEY = "the key of all processes of the campaign"
const READY = /is ready at|claims work from/
/** A server whose database does not respond must still answer. */
const REQUEST_MS = 20_000

export interface ServersOptions {
  folder: string
  /** The variables that select the store, and other settings. */
  env: Record<string, string>
  servers: number
  workers?: number
  /** Further arguments of `ork serve`. */
  serverArgs?: string[]
  /** Starts a process; default: the built command as it is. */
  launch?(args: string[], options: ChildOptions): OrkProcess
}

export class Servers {
  readonly client: Client
  readonly urls: string[]
  readonly key = KEY
  readonly #options: ServersOptions
  readonly #running = new Map<string, OrkProcess>()
  readonly #args = new Map<string, string[]>()

  private constructor(options: ServersOptions, ports: readonly number[]) {
    this.#options = options
    this.urls = ports.map((port) => `http://127.0.0.1:${port}`)
    this.client = new Client(this.urls.map((url) => serverAt(url, KEY, REQUEST_MS)))
    for (const [i, port] of ports.entries())
      this.#args.set(`server-${i}`, ["serve", "--port", String(port), ...(options.serverArgs ?? [])])
    for (let i = 0; i < (options.workers ?? 0); i++) {
      this.#args.set(`worker-${i}`, ["worker", "--server", this.urls.join(","), "--name", `worker-${i}`])
    }
  }

  static async start(options: ServersOptions): Promise<Servers> {
    const started = new Servers(options, await Promise.all(Array.from({ length: options.servers }, freePort)))
    for (const name of started.#args.keys()) await started.start(name)
    return started
  }

  get names(): string[] {
    return [...this.#args.keys()]
  }

  process(name: string): OrkProcess {
    return this.#running.get(name)!
  }

  /** Starts a process; resolves when it is ready. */
  async start(name: string): Promise<void> {
    const cwd = join(this.#options.folder, name)
    mkdirSync(cwd, { recursive: true })
    const { env, launch = startChild } = this.#options
    const child = launch(this.#args.get(name)!, { cwd, env: { ...env, ORK_API_KEY: KEY } })
    this.#running.set(name, child)
    await child.printed(READY)
  }

  async kill(name: string): Promise<void> {
    const child = this.process(name)
    child.kill("SIGKILL")
    await child.exit
  }

  /** Names of the processes that have ended by themselves, with the end of their output. */
  get ended(): string[] {
    return [...this.#running].flatMap(([name, { child, stderr }]) =>
      child.exitCode === null ? [] : [`${name} ended by itself, with ${child.exitCode}: ${stderr.trim().slice(-500)}`],
    )
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#running.keys()].map((name) => this.kill(name)))
  }
}
