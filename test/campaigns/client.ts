// A client of servers that die and return: it repeats every request under the same key until a server accepts it, and keeps what it was
// told.

import { setTimeout as delay } from "node:timers/promises"
import type { ApiResponse, Calls } from "../support/server.ts"

export interface ToldTask {
  name: string
  index: number | null
  status: string
  output: { by?: string } | null
  /** Replaces `output` when the output is large. */
  output_object: object | null
  attempts: { id: string; attempt: number; status: string }[]
}

const RETRY_MS = 100
const POLL_MS = 200
/** Runs that take longer are asked for less often. */
const MAX_POLL_MS = 800
const SETTLE_MS = 60_000
const ENDED = new Set(["success", "failed", "cancelled"])
const FINAL = new Set([...ENDED, "skipped"])

export class Client {
  /** Ids of the runs that servers acknowledged, by the client's key. */
  readonly acknowledged = new Map<string, string>()
  /** Final statuses that servers reported, by run. */
  readonly ended = new Map<string, string>()
  readonly violations: string[] = []
  readonly #servers: readonly Calls[]
  #turn = 0

  constructor(servers: readonly Calls[]) {
    this.#servers = servers
  }

  /** Sends a request to one server after the other until one of them gives an answer that is not about its own state. */
  async ask(method: string, path: string, body?: unknown): Promise<ApiResponse> {
    for (;;) {
      const server = this.#servers[this.#turn++ % this.#servers.length]!
      try {
        const response = await server.call(method, path, body)
        if (response.status < 500 && response.status !== 429) return response
      } catch {
        // No server listens there at present, or it died before it answered.
      }
      await delay(RETRY_MS)
    }
  }

  async deploy(definition: object): Promise<void> {
    const { status, text } = await this.ask("POST", "/workflows", definition)
    if (status >= 300) throw new Error(`could not deploy: ${text}`)
  }

  async trigger(workflow: string, key: string): Promise<string> {
    const { status, text, body } = await this.ask("POST", `/workflows/${workflow}/runs`, {
      params: { key },
      idempotency_key: key,
    })
    if (status >= 300) throw new Error(`could not trigger ${workflow}: ${text}`)
    const id = body["id"] as string
    this.acknowledged.set(key, id)
    return id
  }

  /** Resolves with the final status of a run, which later responses must not change. */
  async end(run: string): Promise<string> {
    for (let pollMs = POLL_MS; ; pollMs = Math.min(2 * pollMs, MAX_POLL_MS)) {
      const { status: code, body } = await this.ask("GET", `/runs/${run}`)
      if (code === 404) this.violations.push(`run ${run}: a server acknowledged it, and later none knew it`)
      const status = code === 404 ? "unknown" : (body["status"] as string)
      if (code === 404 || ENDED.has(status)) {
        this.ended.set(run, status)
        return status
      }
      await delay(pollMs)
    }
  }

  /** Keeps `inFlight` runs of a workflow in flight while `wanted` returns true. */
  async load(workflow: string, inFlight: number, wanted: () => boolean): Promise<void> {
    const one = async (lane: number): Promise<void> => {
      for (let n = 0; wanted(); n++) await this.end(await this.trigger(workflow, `${workflow}-${lane}-${n}`))
    }
    await Promise.all(Array.from({ length: inFlight }, (_, lane) => one(lane)))
  }

  /** Resolves with the tasks of a run when all of them have ended, hooks too; after a while, as they are. */
  async settledTasks(run: string): Promise<ToldTask[]> {
    for (const until = performance.now() + SETTLE_MS; ; await delay(POLL_MS)) {
      const { body } = await this.ask("GET", `/runs/${run}/tasks?limit=100`)
      const tasks = body["items"] as ToldTask[]
      if (tasks.every(({ status }) => FINAL.has(status)) || performance.now() > until) return tasks
    }
  }

  /** Lists the ids of all runs of a workflow with their statuses. */
  async runs(workflow: string): Promise<Map<string, string>> {
    const found = new Map<string, string>()
    for (let cursor = ""; ;) {
      const { body } = await this.ask("GET", `/runs?workflow=${workflow}&limit=100${cursor}`)
      for (const { id, status } of body["items"] as { id: string; status: string }[]) found.set(id, status)
      if (body["next_cursor"] === null) return found
      cursor = `&cursor=${encodeURIComponent(body["next_cursor"] as string)}`
    }
  }
}
