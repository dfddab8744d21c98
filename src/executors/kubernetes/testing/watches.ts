// The watches of the fake cluster: events from a version on, bookmarks, an end when their time is over, and what a test makes go wrong.

import type { ServerResponse } from "node:http"
import { matches } from "./rules.ts"
import type { Kind, ObjectStorage, StoreEvent } from "./store.ts"

interface Watcher {
  kind: Kind
  response: ServerResponse
  take(event: StoreEvent): void
}

/** Its seconds are shorter than the world's. */
const SECOND_MS = 50

export class Watches {
  /** Events come twice, and pairs of them in the wrong order. */
  unruly = false
  /** Nothing is sent. */
  mute = false
  /** A slow watch: events wait until they are let go. */
  held: (() => void)[] | null = null
  /** At once, by kind. */
  readonly most: { [kind: string]: number } = {}
  readonly #storage: ObjectStorage
  readonly #watchers = new Set<Watcher>()

  constructor(storage: ObjectStorage) {
    this.#storage = storage
    storage.listen((event) => {
      for (const watcher of this.#watchers) watcher.take(event)
    })
  }

  /** They break off. */
  drop(): void {
    for (const { response } of this.#watchers) response.destroy()
  }

  /** The past is forgotten, and they are told so. */
  expire(): void {
    this.#storage.forget()
    const status = { kind: "Status", code: 410, reason: "Expired", message: "too old resource version" }
    for (const { response } of this.#watchers) response.end(`${JSON.stringify({ type: "ERROR", object: status })}\n`)
  }

  letGo(): void {
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

  /** False: the version is forgotten. */
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
      // Two events are sent the later first, and each twice.
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
      take: (event) => {
        if (this.mute || event.kind !== kind || event.object.metadata.namespace !== namespace) return
        if (matches(selector, event.object.metadata.labels))
          write(`${JSON.stringify({ type: event.type, object: event.object })}\n`)
      },
    }
    for (const event of past) watcher.take(event)
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
