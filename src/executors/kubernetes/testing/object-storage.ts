// Objects of the fake cluster with their history: growing versions, events for watches, a history that can be forgotten (410
// Gone), and deletions as an API server performs them: an object is removed when its grace period is 0 and it has no
// finalizers.

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
    deletionGracePeriodSeconds?: number
    labels?: { [label: string]: string }
    annotations?: { [name: string]: string }
    ownerReferences?: { uid: string; blockOwnerDeletion?: boolean }[]
    finalizers?: string[]
  }
  spec?: Record<string, unknown>
  status?: Record<string, unknown>
  /** For events. */
  involvedObject?: { name: string }
  message?: string
  /** For Secrets, in base64. */
  data?: { [key: string]: string }
}

export interface NewObject {
  metadata: { name: string; [field: string]: unknown }
  [field: string]: unknown
}

export interface StoreEvent {
  type: "ADDED" | "MODIFIED" | "DELETED"
  version: number
  kind: Kind
  object: ApiObject
}

/** Returns the time in whole seconds, as API servers do. */
export const timestamp = (): string => new Date().toISOString().replace(/\.\d+/, "")

export class ObjectStorage {
  readonly #objects = new Map<string, ApiObject>()
  readonly #owned = new Map<string, Set<string>>()
  readonly #listeners = new Set<(event: StoreEvent) => void>()
  #history: StoreEvent[] = []
  forgotten = 0
  version = 1000

  get(kind: Kind, namespace: string, name: string): ApiObject | undefined {
    return this.#objects.get(`${kind}/${namespace}/${name}`)
  }

  /** Returns the current version of an object; undefined when it is gone. */
  current(kind: Kind, { metadata: { namespace, name, uid } }: ApiObject): ApiObject | undefined {
    const known = this.get(kind, namespace, name)
    return known?.metadata.uid === uid ? known : undefined
  }

  list(kind: Kind, namespace: string): ApiObject[] {
    const prefix = `${kind}/${namespace}/`
    return [...this.#objects].filter(([key]) => key.startsWith(prefix)).map(([, object]) => object)
  }

  owned(kind: Kind, owner: ApiObject): ApiObject[] {
    const keys = [...(this.#owned.get(owner.metadata.uid) ?? [])]
    return keys.filter((key) => key.startsWith(`${kind}/`)).flatMap((key) => this.#objects.get(key) ?? [])
  }

  /** Returns null when the name is taken. */
  add(kind: Kind, namespace: string, given: NewObject): ApiObject | null {
    const key = `${kind}/${namespace}/${given.metadata.name}`
    if (this.#objects.has(key)) return null
    const object = structuredClone(given) as unknown as ApiObject
    object.metadata = { ...object.metadata, namespace, uid: randomUUID(), creationTimestamp: timestamp() }
    for (const { uid } of object.metadata.ownerReferences ?? []) {
      const keys = this.#owned.get(uid) ?? new Set()
      this.#owned.set(uid, keys.add(key))
    }
    this.#put(key, kind, "ADDED", object)
    return object
  }

  update(kind: Kind, object: ApiObject, change: (copy: ApiObject) => void): ApiObject {
    const known = this.current(kind, object)
    if (known === undefined) return object
    const copy = structuredClone(known)
    change(copy)
    const key = `${kind}/${object.metadata.namespace}/${object.metadata.name}`
    const { deletionTimestamp, deletionGracePeriodSeconds = 0, finalizers = [] } = copy.metadata
    if (deletionTimestamp !== undefined && deletionGracePeriodSeconds === 0 && finalizers.length === 0) {
      this.#put(key, kind, "DELETED", copy)
      this.#objects.delete(key)
      for (const { uid } of copy.metadata.ownerReferences ?? []) this.#owned.get(uid)?.delete(key)
    } else this.#put(key, kind, "MODIFIED", copy)
    return copy
  }

  /** Deletes an object. A second call may shorten the grace period. */
  delete(kind: Kind, object: ApiObject, { grace = 0, finalizer = "" } = {}): ApiObject {
    return this.update(kind, object, ({ metadata }) => {
      metadata.deletionTimestamp ??= timestamp()
      metadata.deletionGracePeriodSeconds = Math.min(grace, metadata.deletionGracePeriodSeconds ?? grace)
      if (finalizer !== "") metadata.finalizers = [...(metadata.finalizers ?? []), finalizer]
    })
  }

  removeFinalizer(kind: Kind, object: ApiObject, finalizer: string): void {
    if (this.current(kind, object)?.metadata.finalizers?.includes(finalizer) !== true) return
    this.update(kind, object, ({ metadata }) => {
      metadata.finalizers = (metadata.finalizers ?? []).filter((one) => one !== finalizer)
    })
  }

  /** Returns the events after a version; null when they are forgotten. */
  since(version: number): StoreEvent[] | null {
    return version < this.forgotten ? null : this.#history.filter((event) => event.version > version)
  }

  forget(): void {
    this.forgotten = this.version
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
