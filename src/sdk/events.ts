// Events of jobs, runs and tasks as a program sees them, and the reader that iterates over those of the database.

import type { Json } from "../core/values/json.ts"
import type { RunId } from "../core/model/ids.ts"
import type { TaskStatus } from "../core/model/status.ts"
import type { LoggedEvent } from "../store/contract/event-log.ts"
import type { ServerStore } from "../store/contract/server-store.ts"
import { compareEventIds, EVENT_ID } from "../core/model/event-id.ts"
import type { Definition } from "./definitions.ts"
import { ConflictError } from "./errors.ts"
import { checkNames, EVENTS } from "./option-names.ts"
import type { JobState, RunState, WorkRef } from "./orkable.ts"

/** Progress that an attempt has reported. */
export interface Progress {
  /** 0 to 1. */
  readonly fraction: number | null
  readonly details: Json
}

/** A change of the status of a job, a run or a task of a run, or progress. */
export interface OrkEvent {
  /** Its position: `after` continues there. */
  readonly id: string
  readonly type: "job" | "run" | "task"
  /** Id of the job or run. */
  readonly work: string
  /** Name of the task or workflow; null when its run was deleted. */
  readonly name: string | null
  /** Name of the task of a run; null for a job and for the run itself. */
  readonly task: string | null
  /** Index of the item in each fan-out around and at the task; empty outside of fan-outs. */
  readonly path: string
  readonly status: JobState | RunState | TaskStatus
  readonly attempt: number | null
  readonly at: Date
  readonly error: string | null
  readonly progress: Progress | null
}

export interface EventOptions {
  /** Only events of this job or run. */
  work?: WorkRef
  /** Only events of jobs or runs of this definition, or of that name. */
  def?: Definition | string
  /** Id of an event: those after it, as long as they are kept (an hour). Default: events from now on. */
  after?: string
  /** Ends the iteration. */
  signal?: AbortSignal
}

/** Returns whether an event is one that the caller wants. */
export const isWanted = ({ work, name }: OrkEvent, options: EventOptions): boolean =>
  (options.work === undefined || work === (typeof options.work === "string" ? options.work : options.work.id)) &&
  (options.def === undefined || name === (typeof options.def === "string" ? options.def : options.def.name))

export const eventsAreGone = (after: string): ConflictError =>
  new ConflictError(`events after ${after} are no longer kept: read the present state, and continue without after`)

export const checkEventOptions = (options: EventOptions): void => {
  checkNames(options, EVENTS, "events")
  const { after } = options
  if (after !== undefined && (typeof after !== "string" || !EVENT_ID.test(after)))
    throw new TypeError(`events: after is ${JSON.stringify(after)}, but must be the id of an event, such as "42.0"`)
}

/** Remembers the names of runs, whose events do not have them. */
export class RunNames {
  readonly #find: (id: string) => Promise<string | null>
  readonly #names = new Map<string, Promise<string | null>>()

  constructor(find: (id: string) => Promise<string | null>) {
    this.#find = find
  }

  of(id: string): Promise<string | null> {
    const known = this.#names.get(id)
    if (known !== undefined) return known
    if (this.#names.size >= MAX_NAMES) this.#names.clear()
    const found = this.#find(id)
    this.#names.set(id, found)
    found.catch(() => this.#names.delete(id))
    return found
  }
}

const MAX_NAMES = 1000
const PAGE = 500
/** Commits of other processes do not all announce themselves. Real time: a poll must not let the clock of a test pass. */
const POLL_MS = 500

type EventPage = Awaited<ReturnType<ServerStore["readEvents"]>>

export class EventReader {
  readonly #store: Pick<ServerStore, "readEvents" | "getRun">
  readonly #names: RunNames
  readonly #stopped = new AbortController()
  readonly #waiting = new Set<() => void>()
  #position: Promise<void> | null = null

  constructor(store: Pick<ServerStore, "readEvents" | "getRun">) {
    this.#store = store
    this.#names = new RunNames(async (id) => (await store.getRun(id as RunId))?.workflow ?? null)
  }

  /** Wakes the iterations that wait for a commit. */
  wake(): void {
    for (const check of this.#waiting) check()
  }

  /** Ends the iterations under way. */
  stop(): void {
    this.#stopped.abort()
    this.wake()
  }

  /** Promise until every started iteration has read its position; null if all have. Events of work that is created before may be missed. */
  get position(): Promise<void> | null {
    return this.#position
  }

  #awaitPosition(first: Promise<EventPage>): void {
    const position = Promise.allSettled([this.#position, first]).then(() => {
      if (this.#position === position) this.#position = null
    })
    this.#position = position
  }

  /** Yields events. Reads the position at once: what happens after this call is not missed, however late the iteration begins. */
  read(options: EventOptions): AsyncGenerator<OrkEvent> {
    const first =
      options.after === undefined ? this.#store.readEvents({ after: null, limit: PAGE }) : this.#readAfter(options.after)
    if (options.after === undefined) this.#awaitPosition(first)
    first.catch(() => {})
    return this.#follow(first, options)
  }

  async #readAfter(after: string): Promise<EventPage> {
    const { cursor: end } = await this.#store.readEvents({ after: null, limit: 1 })
    const page = await this.#store.readEvents({ after, limit: PAGE })
    // An id behind the end is from another database, or from before a restore.
    if (page.gap || compareEventIds(after, end) > 0) throw eventsAreGone(after)
    return page
  }

  async *#follow(first: Promise<EventPage>, options: EventOptions): AsyncGenerator<OrkEvent> {
    const stop = options.signal === undefined ? this.#stopped.signal : AbortSignal.any([this.#stopped.signal, options.signal])
    let page = await first
    while (!stop.aborted) {
      for (const logged of page.events) {
        const event = await this.#eventOf(logged)
        if (stop.aborted) return
        if (isWanted(event, options)) yield event
      }
      if (page.events.length < PAGE) await this.#nextChange(stop)
      if (stop.aborted) return
      page = await this.#store.readEvents({ after: page.cursor, limit: PAGE })
    }
  }

  async #eventOf(logged: LoggedEvent): Promise<OrkEvent> {
    const { id, type, runId, jobId, status, task = null, path = "", attempt = null, at, error = null, progress = null } = logged
    const isJob = type === "job"
    return {
      id,
      type,
      work: isJob ? jobId : runId,
      name: isJob ? (logged.name ?? null) : await this.#names.of(runId),
      task,
      path,
      status: status.toLowerCase() as OrkEvent["status"],
      attempt,
      at: new Date(at),
      error,
      progress,
    }
  }

  #nextChange(stop: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        stop.removeEventListener("abort", done)
        this.#waiting.delete(done)
        resolve()
      }
      const timer = setTimeout(done, POLL_MS)
      stop.addEventListener("abort", done, { once: true })
      this.#waiting.add(done)
    })
  }
}
