// Jobs under kills: a client creates pairs of jobs under idempotency keys, of which the second depends on the first and all second ones
// share a concurrency key. Their commands write to the journal.

import { setTimeout as delay } from "node:timers/promises"
import { duplicates } from "../checks.ts"
import type { Client } from "../client.ts"
import type { Entry, Journal } from "../journal.ts"

const ENDED = new Set(["COMPLETED", "FAILED", "BLOCKED"])
const LANES = 4
const POLL_MS = 200
const END_MS = 120_000
/** Enough for attempts that are lost with their process. */
const RETRIES = { retry_policy: { max_attempts: 10, backoff_strategy: "FIXED", base_delay_seconds: 1, max_delay_seconds: 1 } }

interface CreatedJob {
  id: string
  key: string
  dependency: string | null
}

export class Jobs {
  readonly #client: Client
  readonly #journal: Journal
  readonly #created: CreatedJob[] = []

  constructor(client: Client, journal: Journal) {
    this.#client = client
    this.#journal = journal
  }

  get count(): number {
    return this.#created.length
  }

  /** Creates one pair after the other in several lanes while `wanted` returns true. */
  async load(wanted: () => boolean): Promise<void> {
    const lane = async (name: number): Promise<void> => {
      for (let n = 0; wanted(); n++) {
        const first = await this.#create(`first-${name}-${n}`, null)
        const second = await this.#create(`second-${name}-${n}`, first)
        await this.#end(second)
      }
    }
    await Promise.all(Array.from({ length: LANES }, (_, name) => lane(name)))
  }

  async #create(key: string, dependency: string | null): Promise<string> {
    const { status, text, body } = await this.#client.ask("POST", "/jobs", {
      name: "work",
      queue: "default",
      idempotency_key: key,
      task: { command: this.#journal.script(), env: { KEY: key } },
      ...RETRIES,
      ...(dependency !== null && { dependencies: [dependency], concurrency_key: "one at a time" }),
    })
    if (status >= 300) throw new Error(`could not create a job: ${text}`)
    const id = body["id"] as string
    this.#created.push({ id, key, dependency })
    return id
  }

  /** Resolves with the final status of a job; after a while, with its status at that time. */
  async #end(id: string): Promise<string> {
    for (const until = performance.now() + END_MS; ; await delay(POLL_MS)) {
      const { status: code, body } = await this.#client.ask("GET", `/jobs/${id}`)
      const status = code === 404 ? "unknown" : (body["status"] as string)
      if (code === 404 || ENDED.has(status) || performance.now() > until) return status
    }
  }

  /** Waits for the end of all jobs, and compares what they wrote with what the client was told. */
  async check(): Promise<string[]> {
    const statuses = new Map<string, string>()
    await Promise.all(this.#created.map(async ({ id }) => statuses.set(id, await this.#end(id))))
    const ids = new Set(this.#created.map(({ id }) => id))
    const entries = this.#journal.read()
    const own = entries.filter(({ run }) => ids.has(run))
    return [
      ...this.#created.flatMap((job) => jobProblems(job, statuses.get(job.id)!, own)),
      ...duplicates(own),
      ...together(own, this.#created),
    ]
  }
}

/** Each job completes by an attempt that ran to its end, and starts after the job that it depends on has ended. */
export const jobProblems = ({ id, key, dependency }: CreatedJob, status: string, entries: readonly Entry[]): string[] => {
  if (status !== "COMPLETED") return [`job ${key} (${id}) is ${status}`]
  const start = entries.findIndex(({ run }) => run === id)
  const hasEnded = entries.some(({ run, phase }) => run === id && phase === "end")
  const dependencyEnd = entries.findIndex(({ run, phase }) => run === dependency && phase === "end")
  return [
    ...(hasEnded ? [] : [`job ${key} (${id}) was reported as completed, but no attempt of it ended`]),
    ...(dependency === null || (dependencyEnd !== -1 && dependencyEnd < start)
      ? []
      : [`job ${key} (${id}) started before its dependency had ended`]),
  ]
}

/** No two jobs with the concurrency key run at once. A killed attempt writes nothing more, so that its job counts until it starts again. */
export const together = (entries: readonly Entry[], jobs: readonly CreatedJob[]): string[] => {
  const limited = new Set(jobs.filter(({ dependency }) => dependency !== null).map(({ id }) => id))
  const problems = new Set<string>()
  let last: Entry | null = null
  const ended = new Set<string>()
  for (const entry of entries.filter(({ run }) => limited.has(run))) {
    if (ended.has(entry.attemptId) && entry.phase !== "end") problems.add(`attempt ${entry.attemptId} wrote after its end`)
    const isInterleaved = last !== null && last.attemptId !== entry.attemptId && entry.phase !== "start"
    if (isInterleaved) problems.add(`job ${entry.run} and job ${last!.run}, which share a concurrency key, ran at once`)
    if (entry.phase === "end") ended.add(entry.attemptId)
    last = entry
  }
  return [...problems]
}
