// The connection to the event stream, shared by all components. Delivers events in batches, once per frame.
// Reconnects after the last received event. A hidden tab closes the connection, because a
// browser allows few connections per server. EventSource, timers and frames are injected for tests.

import type { OrkEvent } from "../api/types.ts"

export type Connection = "connecting" | "open" | "lost" | "disconnected"

export interface LiveSource {
  onopen: (() => void) | null
  onerror: (() => void) | null
  addEventListener(type: string, listener: (message: { data: string; lastEventId: string }) => void): void
  close(): void
  /** 2 when closed, for example after a response that is not a stream. */
  readonly readyState: number
}

export interface LiveEnvironment {
  connect(url: string): LiveSource
  /** Runs the callback once in the next frame; returns a function that cancels it. */
  frame(run: () => void): () => void
  after(ms: number, run: () => void): () => void
}

export type BatchListener = (events: readonly OrkEvent[]) => void

const RETRY_MS = [1000, 2000, 4000, 8000]
/** Interruptions shorter than this are not reported, in milliseconds. */
const REPORT_AFTER_MS = 1500
const KINDS = ["run", "task", "job"] as const
const GIVEN_UP = 2

export class LiveStream {
  readonly #environment: LiveEnvironment
  readonly #url: string
  readonly #batchListeners = new Set<BatchListener>()
  readonly #gapListeners = new Set<() => void>()
  readonly #stateListeners = new Set<() => void>()
  #source: LiveSource | null = null
  #state: Connection = "connecting"
  #lastId = ""
  #opened = false
  #failures = 0
  #waiting: OrkEvent[] = []
  #cancelFrame: (() => void) | null = null
  #cancelRetry: (() => void) | null = null
  #cancelReport: (() => void) | null = null

  constructor(environment: LiveEnvironment, url: string) {
    this.#environment = environment
    this.#url = url
  }

  get state(): Connection {
    return this.#state
  }

  start(): void {
    if (this.#source === null && this.#cancelRetry === null) this.#connect()
  }

  /** Closes the connection of a hidden tab and remembers the last event. */
  disconnect(): void {
    this.#close()
    this.#set("disconnected")
  }

  stop(): void {
    this.#close()
    this.#cancelFrame?.()
    this.#cancelFrame = null
    this.#waiting = []
  }

  onBatch(listener: BatchListener): () => void {
    this.#batchListeners.add(listener)
    return () => void this.#batchListeners.delete(listener)
  }

  /** Reports that events were lost and data must be reloaded. */
  onGap(listener: () => void): () => void {
    this.#gapListeners.add(listener)
    return () => void this.#gapListeners.delete(listener)
  }

  onState(listener: () => void): () => void {
    this.#stateListeners.add(listener)
    return () => void this.#stateListeners.delete(listener)
  }

  #connect(): void {
    const source = this.#environment.connect(this.#lastId === "" ? this.#url : `${this.#url}?after=${this.#lastId}`)
    this.#source = source
    // Without a last event id, events between two connections are lost.
    const blind = this.#opened && this.#lastId === ""
    source.onopen = () => {
      this.#failures = 0
      this.#opened = true
      if (blind) this.#gapListeners.forEach((listener) => listener())
      this.#cancelReport?.()
      this.#cancelReport = null
      this.#set("open")
    }
    source.onerror = () => this.#failed(source)
    for (const kind of KINDS) source.addEventListener(kind, (message) => this.#take(message))
    source.addEventListener("gap", () => this.#gapListeners.forEach((listener) => listener()))
  }

  #take({ data, lastEventId }: { data: string; lastEventId: string }): void {
    this.#lastId = lastEventId
    this.#waiting.push(JSON.parse(data) as OrkEvent)
    this.#cancelFrame ??= this.#environment.frame(() => {
      this.#cancelFrame = null
      const batch = this.#waiting
      this.#waiting = []
      for (const listener of this.#batchListeners) listener(batch)
    })
  }

  #failed(source: LiveSource): void {
    if (source !== this.#source) return
    this.#cancelReport ??= this.#environment.after(REPORT_AFTER_MS, () => {
      this.#cancelReport = null
      this.#set("lost")
    })
    // Otherwise the browser reconnects itself with Last-Event-ID.
    if (source.readyState !== GIVEN_UP) return
    source.close()
    this.#source = null
    const wait = RETRY_MS[Math.min(this.#failures, RETRY_MS.length - 1)]!
    this.#failures += 1
    this.#cancelRetry = this.#environment.after(wait, () => {
      this.#cancelRetry = null
      this.#connect()
    })
  }

  #close(): void {
    this.#source?.close()
    this.#source = null
    for (const cancel of [this.#cancelRetry, this.#cancelReport]) cancel?.()
    this.#cancelRetry = null
    this.#cancelReport = null
  }

  #set(state: Connection): void {
    if (state === this.#state) return
    this.#state = state
    for (const listener of this.#stateListeners) listener()
  }
}
