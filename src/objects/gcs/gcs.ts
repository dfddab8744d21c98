// The object store in a bucket of Google Cloud Storage, with application default credentials; STORAGE_EMULATOR_HOST names another server.
// Small objects take one request, streams a resumable upload. Memory is bounded by one chunk. Requests are repeated for minutes while
// the store does not respond.

import { ObjectStoreError } from "../errors.ts"
import { type ClientOptions, explainGcs, GcsClient, isBeyondEnd, isMissing, isTransient } from "./client.ts"
import { CHUNK_BYTES, ResumableUpload } from "./resumable.ts"
import { checkDeletedPrefix, checkKey, checkPrefix } from "../shared/keys.ts"
import type { ListedObject, ObjectStore } from "../objects.ts"
import { nullIf } from "../shared/null-if.ts"
import { probe } from "../shared/probe.ts"
import { ChunkReader } from "../shared/chunk-reader.ts"

export interface GcsOptions extends ClientOptions {
  bucket: string
  /** Empty, or ends in `/`. */
  prefix: string
}

interface GcsObject {
  name: string
  generation: string
  updated: string
}

const PAGE_SIZE = 1000
const CONCURRENT_DELETES = 32
/** Limits for requests of users. */
const USER_REQUEST_MS = 5000
const USER_RETRY_FOR_MS = 1000

export class GcsObjectStore implements ObjectStore {
  readonly kind = "gcs"
  readonly #client: GcsClient
  readonly #options: GcsOptions
  readonly failFast?: ObjectStore

  constructor(options: GcsOptions) {
    this.#options = options
    if (options.retryForMs === undefined || options.retryForMs > USER_RETRY_FOR_MS) {
      this.failFast = new GcsObjectStore({ ...options, retryForMs: USER_RETRY_FOR_MS, requestMs: USER_REQUEST_MS })
    }
    this.#client = new GcsClient(options, (error) => this.#explain(error))
  }

  async put(key: string, data: Uint8Array | string): Promise<void> {
    await this.#client.send({
      method: "POST",
      path: `/upload/storage/v1/b/${this.#options.bucket}/o`,
      query: { uploadType: "media", name: this.#name(key) },
      headers: { "content-type": "application/octet-stream" },
      body: typeof data === "string" ? Buffer.from(data) : data,
    })
  }

  async putStream(key: string, data: AsyncIterable<Uint8Array>): Promise<{ bytes: number }> {
    const name = this.#name(key)
    const source = data[Symbol.asyncIterator]()
    const reader = new ChunkReader(source)
    try {
      const first = await reader.read(CHUNK_BYTES)
      if (reader.ended) await this.put(key, first)
      else await this.#upload(name, first, reader)
    } finally {
      if (!reader.ended) await source.return?.()
    }
    return { bytes: reader.bytes }
  }

  async #upload(name: string, first: Uint8Array, reader: ChunkReader): Promise<void> {
    const upload = await ResumableUpload.begin(this.#client, this.#options.bucket, name)
    try {
      for (let chunk = first; ;) {
        const next = await reader.read(CHUNK_BYTES)
        await upload.send(chunk, next.byteLength === 0)
        if (next.byteLength === 0) return
        chunk = next
      }
    } catch (error) {
      void upload.cancel()
      throw error
    }
  }

  async get(key: string): Promise<Uint8Array | null> {
    const response = await orNull(this.#client.send({ method: "GET", path: this.#path(key), query: { alt: "media" } }))
    return response?.body ?? null
  }

  async getRange(key: string, start: number, end: number): Promise<Uint8Array | null> {
    if (end <= start) return (await this.size(key)) === null ? null : new Uint8Array()
    const headers = { range: `bytes=${start}-${end - 1}` }
    try {
      const request = this.#client.send({ method: "GET", path: this.#path(key), query: { alt: "media" }, headers })
      return (await orNull(request))?.body ?? null
    } catch (error) {
      if (isBeyondEnd(error)) return new Uint8Array()
      throw error
    }
  }

  async size(key: string): Promise<number | null> {
    const response = await orNull(this.#client.send({ method: "GET", path: this.#path(key), query: { fields: "size" } }))
    return response === null ? null : Number((JSON.parse(response.body.toString()) as { size: string }).size)
  }

  async list(prefix: string, options: { after?: string; limit?: number } = {}): Promise<string[]> {
    return (await this.listObjects(prefix, options)).map(({ key }) => key)
  }

  async listObjects(prefix: string, options: { after?: string; limit?: number } = {}): Promise<ListedObject[]> {
    const { bucket, prefix: storePrefix } = this.#options
    const limit = options.limit ?? PAGE_SIZE
    const after = options.after === undefined || options.after === "" ? undefined : storePrefix + options.after
    const objects: ListedObject[] = []
    let pageToken: string | undefined
    do {
      const { body } = await this.#client.send({
        method: "GET",
        path: `/storage/v1/b/${bucket}/o`,
        query: {
          prefix: storePrefix + checkPrefix(prefix),
          fields: "items(name,generation,updated),nextPageToken",
          // One more, because the list includes the offset itself.
          maxResults: Math.min(PAGE_SIZE, limit - objects.length + 1),
          startOffset: after,
          pageToken,
        },
      })
      const page = JSON.parse(body.toString()) as { items?: GcsObject[]; nextPageToken?: string }
      for (const { name, generation, updated } of page.items ?? []) {
        if (name === after) continue
        objects.push({ key: name.slice(storePrefix.length), version: generation, changedAt: Date.parse(updated) })
      }
      pageToken = page.nextPageToken
    } while (pageToken !== undefined && objects.length < limit)
    return objects.slice(0, limit)
  }

  async deletePrefix(prefix: string): Promise<void> {
    checkDeletedPrefix(prefix)
    for (;;) {
      const keys = await this.list(prefix)
      if (keys.length === 0) return
      const remaining = keys[Symbol.iterator]()
      const deleteKeys = async (): Promise<void> => {
        for (const key of remaining) await orNull(this.#client.send({ method: "DELETE", path: this.#path(key) }))
      }
      await Promise.all(Array.from({ length: Math.min(CONCURRENT_DELETES, keys.length) }, deleteKeys))
    }
  }

  async check(): Promise<void> {
    try {
      await probe(this.failFast ?? this)
    } catch (error) {
      throw this.#explain(error)
    }
  }

  /** Explains an error to users, except those that the methods above handle. */
  #explain(error: unknown): unknown {
    if (error instanceof ObjectStoreError || isBeyondEnd(error) || isMissing(error)) return error
    const { bucket, prefix } = this.#options
    return new ObjectStoreError(`gs://${bucket}/${prefix}`, explainGcs(error, bucket), {
      cause: error,
      transient: isTransient(error),
    })
  }

  #name(key: string): string {
    return this.#options.prefix + checkKey(key)
  }

  #path(key: string): string {
    return `/storage/v1/b/${this.#options.bucket}/o/${encodeURIComponent(this.#name(key))}`
  }
}

const orNull = <T>(promise: Promise<T>): Promise<T | null> => nullIf(promise, isMissing)
