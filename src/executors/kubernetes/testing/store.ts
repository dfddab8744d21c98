// Objects of the fake cluster with their history: versions that grow, events for watches, and a past that can be forgotten (410 Gone).

import { randomUUID } from "node:crypto"

export type Kind = "jobs" | "pods" | "secrets" | "events"

export interface ApiObject {
  apiVersion?: string
  kind?: string
  metadata: {
    name: string
    namespace: string
    uid: string
    resourceVersion: string
    creationTimestamp: string
    deletionTimestamp?: string
    labels?: { [label: string]: string }
    annotations?: { [name: string]: string }
    ownerReferences?: { uid: string }[]
    finalizers?: string[]
  }
  spec?: Record<string, unknown>
  status?: Record<string, unknown>
  /** Of an event. */
  involvedObject?: { name: string }
  stringData?: { [key: string]: string }
}

export interface StoreEvent {
  type: "ADDED" | "MODIFIED" | "DELETED"
  version: number
  kind: Kind
  object: ApiObject
}

export class ObjectStorage {
  readonly #objects = new Map<string, ApiObject>()
  readonly #listeners = new Set<(event: StoreEvent) => void>()
  #history: StoreEvent[] = []
  #forgotten = 0
  version = 1000

  get(kind: Kind, namespace: string, name: string): ApiObject | undefined {
    return this.#objects.get(`${kind}/${namespace}/${name}`)
  }

  list(kind: Kind, namespace: string): ApiObject[] {
    const prefix = `${kind}/${namespace}/`
    return [...this.#objects].filter(([key]) => key.startsWith(prefix)).map(([, object]) => object)
  }

  /** null: the name is taken. */
  add(
    kind: Kind,
    namespace: string,
    given: { metadata: { name: string; [field: string]: unknown }; [field: string]: unknown },
  ): ApiObject | null {
    const key = `${kind}/${namespace}/${given.metadata.name}`
    if (this.#objects.has(key)) return null
    const object = structuredClone(given) as unknown as ApiObject
    Object.assign(object.metadata, { namespace, uid: randomUUID(), creationTimestamp: new Date().toISOString() })
    this.#put(key, kind, "ADDED", object)
    return object
  }

  update(kind: Kind, object: ApiObject, change: (copy: ApiObject) => void): ApiObject {
    const key = `${kind}/${object.metadata.namespace}/${object.metadata.name}`
    const known = this.#objects.get(key)
    if (known?.metadata.uid !== object.metadata.uid) return object
    const copy = structuredClone(known)
    change(copy)
    this.#put(key, kind, "MODIFIED", copy)
    return copy
  }

  remove(kind: Kind, object: ApiObject): void {
    const key = `${kind}/${object.metadata.namespace}/${object.metadata.name}`
    const known = this.#objects.get(key)
    if (known?.metadata.uid !== object.metadata.uid) return
    this.#put(key, kind, "DELETED", structuredClone(known))
    this.#objects.delete(key)
  }

  /** Events after a version; null: those are forgotten. */
  since(version: number): StoreEvent[] | null {
    return version < this.#forgotten ? null : this.#history.filter((event) => event.version > version)
  }

  forget(): void {
    this.#forgotten = this.version
    this.#history = []
  }

  listen(listener: (event: StoreEvent) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #put(key: string, kind: Kind, type: StoreEvent["type"], object: ApiObject): void {
    this.version += 1
    object.metadata.resourceVersion = String(this.version)
    this.#objects.set(key, object)
    const event: StoreEvent = { type, version: this.version, kind, object }
    this.#history.push(event)
    for (const listener of this.#listeners) listener(event)
  }
}
