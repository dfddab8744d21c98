// The object store in a bucket of Google Cloud Storage. Credentials are the application default ones; STORAGE_EMULATOR_HOST names another
// server. Small objects go in one request, streams in a resumable upload: they appear whole, and memory is bounded by one chunk.

import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"
import { type Bucket, type File, IdempotencyStrategy, Storage } from "@google-cloud/storage"
import { explainGcs, isBeyondEnd, isMissing } from "./gcs/errors.ts"
import { checkDeletion, checkKey, checkPrefix } from "./keys.ts"
import type { ObjectStore } from "./objects.ts"
import { probe } from "./probe.ts"
import { Taker } from "./taker.ts"

export interface GcsOptions {
  bucket: string
  /** Empty, or ends in `/`. */
  prefix: string
  /** A server other than Google's; asked without credentials. */
  endpoint?: string
}

const PAGE = 1000
const DELETES_AT_ONCE = 32
/** A multiple of 256 KiB. */
const CHUNK_BYTES = 8 << 20
const REQUEST_MS = 60_000
const RETRY_SECONDS = 60

export class GcsObjectStore implements ObjectStore {
  readonly kind = "gcs"
  readonly #bucket: Bucket
  readonly #options: GcsOptions

  constructor(options: GcsOptions) {
    this.#options = options
    const storage = new Storage({
      ...(options.endpoint !== undefined && { apiEndpoint: options.endpoint }),
      timeout: REQUEST_MS,
      // Every write here puts a whole object in place of another, so all of them may be tried again.
      retryOptions: { idempotencyStrategy: IdempotencyStrategy.RetryAlways, maxRetries: 4, totalTimeout: RETRY_SECONDS },
    })
    this.#bucket = storage.bucket(options.bucket)
  }

  async put(key: string, data: Uint8Array | string): Promise<void> {
    const content = typeof data === "string" ? data : Buffer.from(data.buffer, data.byteOffset, data.byteLength)
    await this.#file(key).save(content, { resumable: false })
  }

  async putStream(key: string, data: AsyncIterable<Uint8Array>): Promise<{ bytes: number }> {
    const file = this.#file(key)
    const source = data[Symbol.asyncIterator]()
    const taker = new Taker(source)
    try {
      const first = await taker.take(CHUNK_BYTES)
      if (taker.ended) await file.save(first, { resumable: false })
      else {
        const rest = async function* (): AsyncGenerator<Uint8Array> {
          for (let piece = first; piece.byteLength > 0; piece = await taker.take(CHUNK_BYTES)) yield piece
        }
        const target = file.createWriteStream({ resumable: true, chunkSize: CHUNK_BYTES })
        await pipeline(Readable.from(rest(), { objectMode: false }), target)
      }
    } finally {
      if (!taker.ended) await source.return?.()
    }
    return { bytes: taker.bytes }
  }

  async get(key: string): Promise<Uint8Array | null> {
    return (await orNull(this.#file(key).download()))?.[0] ?? null
  }

  async getRange(key: string, start: number, end: number): Promise<Uint8Array | null> {
    if (end <= start) return (await this.size(key)) === null ? null : new Uint8Array()
    try {
      return (await orNull(this.#file(key).download({ start, end: end - 1 })))?.[0] ?? null
    } catch (error) {
      if (isBeyondEnd(error)) return new Uint8Array()
      throw error
    }
  }

  async size(key: string): Promise<number | null> {
    const answer = await orNull(this.#file(key).getMetadata())
    return answer === null ? null : Number(answer[0].size ?? 0)
  }

  async list(prefix: string, options: { after?: string; limit?: number } = {}): Promise<string[]> {
    const own = this.#options.prefix
    const limit = options.limit ?? PAGE
    const after = options.after === undefined || options.after === "" ? null : own + options.after
    const keys: string[] = []
    let pageToken: string | undefined
    do {
      const [files, next] = await this.#bucket.getFiles({
        autoPaginate: false,
        prefix: own + checkPrefix(prefix),
        fields: "items(name),nextPageToken",
        // One more, as the offset itself is listed too.
        maxResults: Math.min(PAGE, limit - keys.length + 1),
        ...(after !== null && { startOffset: after }),
        ...(pageToken !== undefined && { pageToken }),
      })
      keys.push(...files.filter(({ name }) => name !== after).map(({ name }) => name.slice(own.length)))
      pageToken = next?.pageToken
    } while (pageToken !== undefined && keys.length < limit)
    return keys.slice(0, limit)
  }

  async deletePrefix(prefix: string): Promise<void> {
    checkDeletion(prefix)
    for (;;) {
      const keys = await this.list(prefix)
      if (keys.length === 0) return
      const left = keys[Symbol.iterator]()
      const worker = async (): Promise<void> => {
        for (const key of left) await this.#file(key).delete({ ignoreNotFound: true })
      }
      await Promise.all(Array.from({ length: Math.min(DELETES_AT_ONCE, keys.length) }, worker))
    }
  }

  async check(): Promise<void> {
    const { bucket, prefix } = this.#options
    try {
      await probe(this)
    } catch (error) {
      throw new Error(`the object store gs://${bucket}/${prefix} cannot be used: ${explainGcs(error, bucket)}`, {
        cause: error,
      })
    }
  }

  #file(key: string): File {
    return this.#bucket.file(this.#options.prefix + checkKey(key))
  }
}

const orNull = async <T>(promise: Promise<T>): Promise<T | null> => {
  try {
    return await promise
  } catch (error) {
    if (isMissing(error)) return null
    throw error
  }
}
