// One feed of events per server, whatever the number of streams: after a commit it reads the event log once and hands what is new
// to everybody who listens. The engine wakes it for commits of this process, the store for those of others; as not every commit is
// worth a notification to other processes, it looks by itself once a second too. With nobody listening it reads nothing. A listener goes from catching up to live without a gap and without a repeat: both go by the log's ids.

import type { Clock } from "../../core/model/ports.ts"
import type { RunId } from "../../core/model/ids.ts"
import { eventShape } from "../../protocol/api/shapes.ts"
import type { EventLog, LoggedEvent } from "../../store/contract/event-log.ts"
import { compareEventIds } from "./event-id.ts"

const PAGE = 500
const RETRY_MS = 1000
export const POLL_MS = 1000

/** An event and its text on the wire, made once for all streams. */
export interface Frame {
  event: LoggedEvent
  text: string
}

const frameOf = (event: LoggedEvent): Frame => ({
  event,
  text: `id: ${event.id}\nevent: ${event.type}\ndata: ${JSON.stringify(eventShape(event))}\n\n`,
})

export interface Listener {
  /** null: of all runs. */
  runId: RunId | null
  deliver(frames: readonly Frame[]): void
  /** Some events are gone for good. */
  onGap(): void
}

interface Live extends Listener {
  /** Nothing up to this id is for it. */
  after: string
}

export interface FollowRequest {
  runId: RunId | null
  /** null: from now on. */
  after: string | null
  /** What was missed, in order; resolves when there is room for more. */
  catchUp(frames: readonly Frame[]): Promise<void>
  /** What happens from now on, in order; does not wait. */
  deliver(frames: readonly Frame[]): void
  onGap(): void
  /** It is live: everything after this id is delivered. */
  onLive?(after: string): void
  signal: AbortSignal
}

export class EventFeed {
  readonly #log: EventLog
  readonly #clock: Clock
  readonly #failed: (error: unknown) => void
  readonly #live = new Set<Live>()
  /** Streams that are catching up count too: the cursor must move while they do. */
  #users = 0
  #cursor: string | null = null
  #starting: Promise<void> | null = null
  #pumping = false
  #dirty = false
  #cancelRetry: (() => void) | null = null
  #cancelLook: (() => void) | null = null

  constructor(log: EventLog, clock: Clock, failed: (error: unknown) => void) {
    this.#log = log
    this.#clock = clock
    this.#failed = failed
  }

  /** Something was committed. */
  wake(): void {
    if (this.#cursor === null) {
      this.#dirty = this.#starting !== null
      return
    }
    this.#dirty = true
    if (!this.#pumping) void this.#pump()
  }

  /** Gives events until the signal is aborted. Resolves once it is live. */
  async follow(request: FollowRequest): Promise<void> {
    this.#users += 1
    let live: Live | null = null
    const leave = (): void => {
      if (live !== null) this.#live.delete(live)
      this.#users -= 1
      if (this.#users === 0) this.#rest()
    }
    request.signal.addEventListener("abort", leave, { once: true })
    if (request.signal.aborted) return leave()
    await this.#start()
    const { runId, deliver, onGap } = request
    const join = (after: string): void => {
      if (request.signal.aborted) return
      live = { runId, after, deliver, onGap }
      this.#live.add(live)
      request.onLive?.(after)
    }
    if (request.after === null) return join(this.#cursor!)
    await this.#catchUp(request, request.after, join)
  }

  async #catchUp(request: FollowRequest, after: string, join: (after: string) => void): Promise<void> {
    const end = (await this.#log.readEvents({ after: null, limit: 1 })).cursor
    let position = after
    if (compareEventIds(position, end) > 0) {
      // An id from another database, or from before a restore.
      request.onGap()
      position = end
    }
    while (!request.signal.aborted) {
      // No wait between the comparison and the joining: the feed cannot move in between.
      if (compareEventIds(position, this.#cursor!) >= 0) return join(position)
      const seen = this.#cursor!
      const page = await this.#log.readEvents({
        after: position,
        limit: PAGE,
        ...(request.runId !== null && { runId: request.runId }),
      })
      if (page.gap) request.onGap()
      if (page.events.length > 0) await request.catchUp(page.events.map(frameOf))
      // Nothing found and no way made: what the feed had read before this look holds nothing for us either.
      const stuck = page.events.length === 0 && compareEventIds(page.cursor, position) <= 0
      position = later(stuck ? seen : page.cursor, position)
    }
  }

  async #start(): Promise<void> {
    if (this.#cursor !== null) return
    this.#starting ??= this.#log.readEvents({ after: null, limit: 1 }).then(
      ({ cursor }) => {
        this.#starting = null
        this.#cursor = cursor
        this.#lookLater()
        if (this.#dirty) this.wake()
      },
      (error: unknown) => {
        this.#starting = null
        throw error
      },
    )
    await this.#starting
  }

  #rest(): void {
    this.#cursor = null
    this.#cancelRetry?.()
    this.#cancelRetry = null
    this.#cancelLook?.()
    this.#cancelLook = null
  }

  #lookLater(): void {
    this.#cancelLook?.()
    this.#cancelLook = this.#clock.after(POLL_MS, () => {
      this.wake()
      this.#lookLater()
    })
  }

  async #pump(): Promise<void> {
    this.#pumping = true
    try {
      // The events of one commit wake it one by one; they are read together.
      await Promise.resolve()
      while (this.#dirty && this.#cursor !== null) {
        this.#dirty = false
        let more = true
        while (more && this.#cursor !== null)
          more = this.#deliver(await this.#log.readEvents({ after: this.#cursor, limit: PAGE }))
      }
    } catch (error) {
      this.#failed(error)
      this.#dirty = true
      this.#cancelRetry ??= this.#clock.after(RETRY_MS, () => {
        this.#cancelRetry = null
        this.wake()
      })
    } finally {
      this.#pumping = false
    }
  }

  /** True: there may be more. */
  #deliver(page: Awaited<ReturnType<EventLog["readEvents"]>>): boolean {
    if (this.#cursor === null) return false
    this.#cursor = later(page.cursor, this.#cursor)
    if (page.gap) for (const live of this.#live) live.onGap()
    if (page.events.length === 0) return false
    const frames = page.events.map(frameOf)
    const byRun = Map.groupBy(frames, (frame) => frame.event.runId)
    for (const live of this.#live) {
      const mine = live.runId === null ? frames : byRun.get(live.runId)
      const fresh = mine?.filter((frame) => compareEventIds(frame.event.id, live.after) > 0) ?? []
      if (fresh.length > 0) live.deliver(fresh)
    }
    return true
  }
}

const later = (a: string, b: string): string => (compareEventIds(a, b) >= 0 ? a : b)
