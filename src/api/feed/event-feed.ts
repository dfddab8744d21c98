// One feed of events per server, shared by all streams: after a commit it reads the event log once and delivers the new events to every
// subscriber. The engine wakes it for commits of this process, the store for commits of other processes; it also polls every second,
// because other processes do not announce every commit. It reads nothing while it has no subscribers. A subscriber goes from catching up
// to live without a gap or a repeat, because both follow the ids of the log.

import { compareEventIds } from "../../core/model/event-id.ts"
import type { Clock } from "../../core/model/ports.ts"
import type { RunId } from "../../core/model/ids.ts"
import { eventShape } from "../../engine/run-json.ts"
import type { EventLog, LoggedEvent } from "../../store/contract/event-log.ts"

const PAGE = 500
const RETRY_MS = 1000
const POLL_MS = 1000

/** An event and its text on the wire, encoded once for all streams. */
export interface Frame {
  event: LoggedEvent
  text: string
}

const frameOf = (event: LoggedEvent): Frame => ({
  event,
  text: `id: ${event.id}\nevent: ${event.type}\ndata: ${JSON.stringify(eventShape(event))}\n\n`,
})

export interface FollowRequest {
  /** null: events of all runs and jobs. */
  runId: RunId | null
  /** Id of the last event that the subscriber has seen. null: only new events. */
  after: string | null
  /** Called with missed events, in order. Resolves when the subscriber accepts more. */
  catchUp(frames: readonly Frame[]): Promise<void>
  /** Called with new events, in order. The feed does not wait. */
  deliver(frames: readonly Frame[]): void
  /** Called when some events are no longer in the log. */
  onGap(): void
  /** Called when the subscriber is live: every event after this id is delivered. */
  onLive?(after: string): void
  signal: AbortSignal
}

interface LiveSubscriber extends Pick<FollowRequest, "runId" | "deliver" | "onGap"> {
  /** Events up to this id are not delivered. */
  after: string
}

type EventPage = Awaited<ReturnType<EventLog["readEvents"]>>

export class EventFeed {
  readonly #log: EventLog
  readonly #clock: Clock
  readonly #onError: (error: unknown) => void
  readonly #live = new Set<LiveSubscriber>()
  /** Number of subscribers, including those that catch up: the cursor must advance for them too. */
  #subscribers = 0
  /** Id of the last event that was read, or null while the feed is stopped. */
  #cursor: string | null = null
  #starting: Promise<void> | null = null
  #reading = false
  #readAgain = false
  #cancelRetry: (() => void) | null = null
  #cancelPoll: (() => void) | null = null

  constructor(log: EventLog, clock: Clock, onError: (error: unknown) => void) {
    this.#log = log
    this.#clock = clock
    this.#onError = onError
  }

  /** Reads the log soon. Called after commits. */
  wake(): void {
    if (this.#cursor === null) {
      this.#readAgain = this.#starting !== null
      return
    }
    this.#readAgain = true
    if (!this.#reading) void this.#read()
  }

  /** Delivers events until the signal is aborted. Resolves when the subscriber is live. */
  async follow(request: FollowRequest): Promise<void> {
    this.#subscribers += 1
    let live: LiveSubscriber | null = null
    const leave = (): void => {
      if (live !== null) this.#live.delete(live)
      this.#subscribers -= 1
      if (this.#subscribers === 0) this.#stop()
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
      // The id is from another database, or from before a restore.
      request.onGap()
      position = end
    }
    while (!request.signal.aborted) {
      // No await between the comparison and the joining: the cursor cannot advance in between.
      if (compareEventIds(position, this.#cursor!) >= 0) return join(position)
      const cursor = this.#cursor!
      const page = await this.#log.readEvents({
        after: position,
        limit: PAGE,
        ...(request.runId !== null && { runId: request.runId }),
      })
      if (page.gap) request.onGap()
      if (page.events.length > 0) await request.catchUp(page.events.map(frameOf))
      // An empty page that does not advance: the events up to the feed's cursor belong to other runs.
      const stuck = page.events.length === 0 && compareEventIds(page.cursor, position) <= 0
      position = later(stuck ? cursor : page.cursor, position)
    }
  }

  async #start(): Promise<void> {
    if (this.#cursor !== null) return
    this.#starting ??= this.#log.readEvents({ after: null, limit: 1 }).then(
      ({ cursor }) => {
        this.#starting = null
        this.#cursor = cursor
        this.#schedulePoll()
        if (this.#readAgain) this.wake()
      },
      (error: unknown) => {
        this.#starting = null
        throw error
      },
    )
    await this.#starting
  }

  #stop(): void {
    this.#cursor = null
    this.#cancelRetry?.()
    this.#cancelRetry = null
    this.#cancelPoll?.()
    this.#cancelPoll = null
  }

  #schedulePoll(): void {
    this.#cancelPoll?.()
    this.#cancelPoll = this.#clock.after(POLL_MS, () => {
      this.wake()
      this.#schedulePoll()
    })
  }

  async #read(): Promise<void> {
    this.#reading = true
    try {
      // Every event of a commit calls `wake`. Waiting a moment lets one read return them all.
      await Promise.resolve()
      while (this.#readAgain && this.#cursor !== null) {
        this.#readAgain = false
        let more = true
        while (more && this.#cursor !== null)
          more = this.#deliver(await this.#log.readEvents({ after: this.#cursor, limit: PAGE }))
      }
    } catch (error) {
      this.#onError(error)
      this.#readAgain = true
      this.#cancelRetry ??= this.#clock.after(RETRY_MS, () => {
        this.#cancelRetry = null
        this.wake()
      })
    } finally {
      this.#reading = false
    }
  }

  /** Returns whether the log may have another page. */
  #deliver(page: EventPage): boolean {
    if (this.#cursor === null) return false
    this.#cursor = later(page.cursor, this.#cursor)
    if (page.gap) for (const live of this.#live) live.onGap()
    if (page.events.length === 0) return false
    const frames = page.events.map(frameOf)
    const byRun = Map.groupBy(frames, (frame) => frame.event.runId)
    for (const live of this.#live) {
      const matching = live.runId === null ? frames : byRun.get(live.runId)
      const unseen = matching?.filter((frame) => compareEventIds(frame.event.id, live.after) > 0) ?? []
      if (unseen.length > 0) live.deliver(unseen)
    }
    return true
  }
}

const later = (a: string, b: string): string => (compareEventIds(a, b) >= 0 ? a : b)
