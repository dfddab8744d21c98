// The watches of the fake cluster: events since a version, bookmarks, an end after their time limit, and faults that tests
// inject.

import type { ServerResponse } from "node:http"
import { matches } from "./rules.ts"
import type { Kind, ObjectStorage, StoreEvent } from "./object-storage.ts"

interface Watcher {
  kind: Kind
  response: ServerResponse
  send(event: StoreEvent): void
}

/** Milliseconds of a second of `timeoutSeconds`, which is shorter than a real one. */
const SECOND_MS = 50

export class Watches {
  /** Sends events twice, and pairs of them in the wrong order. */
  unruly = false
  /** Drops all events. */
  mute = false
  /** Delayed events, which `flush` sends; null when events are not delayed. */
  held: (() => void)[] | null = null
  /** Maximum number of concurrent watches by kind. */
  readonly most: { [kind: string]: number } = {}
  readonly #storage: ObjectStorage
  readonly #watchers = new Set<Watcher>()

  constructor(storage: ObjectStorage) {
    this.#storage = storage
    storage.listen((event) => {
      for (const watcher of this.#watchers) watcher.send(event)
    })
  }

  /** Breaks all connections. */
  drop(): void {
    for (const { response } of this.#watchers) response.destroy()
  }

  /** Forgets the history, and ends all watches with 410. */
  expire(): void {
    this.#storage.forget()
    const status = { kind: "Status", code: 410, reason: "Expired", message: "too old resource version" }
    for (const { response } of this.#watchers) response.end(`${JSON.stringify({ type: "ERROR", object: status })}\n`)
  }

  flush(): void {
    const waiting = this.held ?? []
    this.held = null
    for (const send of waiting) send()
  }

  bookmark(): void {
    for (const { response, kind } of this.#watchers) {
      const object = { kind, metadata: { resourceVersion: String(this.#storage.version), creationTimestamp: null } }
      response.write(`${JSON.stringify({ type: "BOOKMARK", object })}\n`)
    }
  }

  /** Starts a watch. Returns false when its version is forgotten. */
  begin(kind: Kind, namespace: string, query: URLSearchParams, response: ServerResponse): boolean {
    const past = this.#storage.since(Number(query.get("resourceVersion")))
    if (past === null) return false
    response.writeHead(200, { "content-type": "application/json" })
    response.flushHeaders()
    const selector = query.get("labelSelector") ?? ""
    let before: string | null = null
    const write = (line: string): void => {
      if (this.held !== null) return void this.held.push(() => write(line))
      if (!this.unruly) return void response.write(line)
      // Sends two events in reverse order, and each twice.
      if (before === null) before = line
      else {
        response.write(line + before + line + before)
        before = null
      }
    }
    const flush = setInterval(() => {
      if (before !== null) response.write(before)
      before = null
    }, 10)
    const watcher: Watcher = {
      kind,
      response,
      send: (event) => {
        if (this.mute || event.kind !== kind || event.object.metadata.namespace !== namespace) return
        if (matches(selector, event.object.metadata.labels))
          write(`${JSON.stringify({ type: event.type, object: event.object })}\n`)
      },
    }
    for (const event of past) watcher.send(event)
    this.#watchers.add(watcher)
    const now = [...this.#watchers].filter((one) => one.kind === kind).length
    this.most[kind] = Math.max(now, this.most[kind] ?? 0)
    const over = setTimeout(() => response.end(), Number(query.get("timeoutSeconds")) * SECOND_MS)
    response.on("close", () => {
      clearInterval(flush)
      clearTimeout(over)
      this.#watchers.delete(watcher)
    })
    return true
  }
}
