// The object store in an S3 bucket, or on a server with the S3 protocol. Credentials come from the standard chain of the AWS SDK
// (environment, profile, web identity, instance role). Memory is bounded by one part of a multipart upload. Requests are repeated for
// minutes while the store does not respond.

import {
  AbortMultipartUploadCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandInput,
  type ListMultipartUploadsCommandOutput,
  ListObjectsV2Command,
  type MultipartUpload,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3"
import { ObjectStoreError } from "../errors.ts"
import { checkDeletedPrefix, checkKey, checkPrefix } from "../shared/keys.ts"
import { KEY_PREFIXES, type ListedObject, type ObjectStore, type ObjectRange } from "../objects.ts"
import { nullIf } from "../shared/null-if.ts"
import { type RetryOptions, withRetries } from "../shared/retry.ts"
import { probe } from "../shared/probe.ts"
import { readObjectRange } from "../shared/read-range.ts"
import { explainS3, isBeyondEnd, isMissing, isMissingUpload, isTransient } from "./errors.ts"
import { ChunkReader } from "../shared/chunk-reader.ts"
import { MIN_PART_BYTES, PartsUpload, type ObjectLocation } from "./multipart.ts"

export interface S3Options {
  bucket: string
  /** Empty, or ends in `/`. */
  prefix: string
  /** Null for Amazon S3. */
  endpoint: string | null
  region: string | null
  pathStyle: boolean
  /** Timeout of one request. */
  requestMs?: number
  /** Time for which requests are repeated while the store does not respond. 0: a few seconds. */
  retryForMs?: number
  /** Pause before the first repetition; later ones are longer. */
  retryDelayMs?: number
}

/** Maximum number of keys in one S3 list or delete request. */
const PAGE_SIZE = 1000
const CONNECT_MS = 5000
const REQUEST_MS = 120_000
/** Time without a byte after which a connection is dead. */
const SILENCE_MS = 15_000
const RETRY_FOR_MS = 300_000
/** Maximum timeout of one request of a user. */
const USER_REQUEST_MS = 5000
/** Region for servers without regions. */
const DEFAULT_REGION = "us-east-1"

export class S3ObjectStore implements ObjectStore {
  readonly kind = "s3"
  readonly #client: S3Client
  readonly #options: S3Options
  readonly #retryOptions: RetryOptions
  readonly failFast?: ObjectStore

  constructor(options: S3Options) {
    this.#options = options
    const { retryForMs = RETRY_FOR_MS, retryDelayMs: firstDelayMs } = options
    this.#retryOptions = { retryForMs, isTransient, ...(firstDelayMs !== undefined && { firstDelayMs }) }
    const requestMs = options.requestMs ?? REQUEST_MS
    if (retryForMs > 0) {
      this.failFast = new S3ObjectStore({ ...options, retryForMs: 0, requestMs: Math.min(requestMs, USER_REQUEST_MS) })
    }
    const region = options.region ?? process.env["AWS_REGION"] ?? (options.endpoint === null ? null : DEFAULT_REGION)
    this.#client = new S3Client({
      forcePathStyle: options.pathStyle,
      maxAttempts: retryForMs > 0 ? 5 : 2,
      // Older servers reject optional checksums, and computing them needs a second pass over streams.
      requestChecksumCalculation: "WHEN_REQUIRED",
      responseChecksumValidation: "WHEN_REQUIRED",
      requestHandler: {
        connectionTimeout: CONNECT_MS,
        requestTimeout: requestMs,
        socketTimeout: SILENCE_MS,
        // Without this, the SDK only logs the timeout.
        throwOnRequestTimeout: true,
        httpAgent: { maxSockets: 64, keepAlive: true },
        httpsAgent: { maxSockets: 64, keepAlive: true },
      },
      ...(options.endpoint !== null && { endpoint: options.endpoint }),
      ...(region !== null && { region }),
    })
    // Repeats requests, whose bodies are all in memory, and explains every error to users, except those that the methods below handle.
    this.#client.middlewareStack.add(
      (next) => async (args) => {
        try {
          return await withRetries(() => next(args), this.#retryOptions)
        } catch (error) {
          throw isMissing(error) || isBeyondEnd(error) || isMissingUpload(error) ? error : this.#explain(error)
        }
      },
      { step: "initialize", name: "repeatAndExplain" },
    )
  }

  async put(key: string, data: Uint8Array | string): Promise<void> {
    const Body = typeof data === "string" ? Buffer.from(data) : data
    await this.#client.send(new PutObjectCommand({ ...this.#location(key), Body, ContentLength: Body.byteLength }))
  }

  async putStream(key: string, data: AsyncIterable<Uint8Array>): Promise<{ bytes: number }> {
    const location = this.#location(key)
    const source = data[Symbol.asyncIterator]()
    const reader = new ChunkReader(source)
    try {
      const first = await reader.read(PartsUpload.firstPartBytes)
      if (reader.ended) await this.#client.send(new PutObjectCommand({ ...location, Body: first }))
      else {
        await PartsUpload.write(this.#client, location, async (upload) => {
          for (let part = first; part.byteLength > 0; part = await reader.read(upload.nextPartBytes)) await upload.add(part)
        })
      }
    } finally {
      if (!reader.ended) await source.return?.()
    }
    return { bytes: reader.bytes }
  }

  async join(key: string, ranges: readonly ObjectRange[]): Promise<void> {
    const location = this.#location(key)
    const total = ranges.reduce((sum, { start, end }) => sum + end - start, 0)
    if (total < MIN_PART_BYTES) {
      const all = await Promise.all(ranges.map((range) => readObjectRange(this, range)))
      await this.#client.send(new PutObjectCommand({ ...location, Body: Buffer.concat(all) }))
      return
    }
    await PartsUpload.write(this.#client, location, (upload) => this.#addRanges(upload, ranges))
  }

  /** Copies large ranges inside the store; downloads small ones and collects them until they fill a part. */
  async #addRanges(upload: PartsUpload, ranges: readonly ObjectRange[]): Promise<void> {
    let collected: Uint8Array[] = []
    let bytes = 0
    for (const { key, start, end } of ranges) {
      for (let at = start; at < end;) {
        const copies = bytes === 0 && end - at >= MIN_PART_BYTES
        const to = copies ? end : Math.min(end, at + MIN_PART_BYTES - bytes)
        if (copies) await upload.copy(this.#options.prefix + checkKey(key), at, to)
        else {
          collected.push(await readObjectRange(this, { key, start: at, end: to }))
          bytes += to - at
        }
        at = to
        if (bytes < MIN_PART_BYTES) continue
        await upload.add(Buffer.concat(collected))
        collected = []
        bytes = 0
      }
    }
    if (bytes > 0) await upload.add(Buffer.concat(collected))
  }

  async get(key: string): Promise<Uint8Array | null> {
    return this.#read(new GetObjectCommand(this.#location(key)))
  }

  async getRange(key: string, start: number, end: number): Promise<Uint8Array | null> {
    if (end <= start) return (await this.size(key)) === null ? null : new Uint8Array()
    try {
      return await this.#read(new GetObjectCommand({ ...this.#location(key), Range: `bytes=${start}-${end - 1}` }))
    } catch (error) {
      if (isBeyondEnd(error)) return new Uint8Array()
      throw error
    }
  }

  /** Reads an object. Also repeats a request whose connection breaks during the body. */
  #read(command: GetObjectCommand): Promise<Uint8Array | null> {
    return withRetries(async () => {
      const { Body } = (await nullIf(this.#client.send(command), isMissing)) ?? {}
      return Body === undefined ? null : await Body.transformToByteArray()
    }, this.#retryOptions)
  }

  async size(key: string): Promise<number | null> {
    const head = await nullIf(this.#client.send(new HeadObjectCommand(this.#location(key))), isMissing)
    return head === null ? null : (head.ContentLength ?? 0)
  }

  async list(prefix: string, options: { after?: string; limit?: number } = {}): Promise<string[]> {
    return (await this.listObjects(prefix, options)).map(({ key }) => key)
  }

  async listObjects(prefix: string, options: { after?: string; limit?: number } = {}): Promise<ListedObject[]> {
    const { bucket, prefix: storePrefix } = this.#options
    const Prefix = storePrefix + checkPrefix(prefix)
    const limit = options.limit ?? PAGE_SIZE
    const objects: ListedObject[] = []
    let after = options.after === undefined || options.after === "" ? undefined : storePrefix + options.after
    while (objects.length < limit) {
      const page = await this.#client.send(
        new ListObjectsV2Command({
          Bucket: bucket,
          Prefix,
          MaxKeys: Math.min(PAGE_SIZE, limit - objects.length),
          ...(after !== undefined && { StartAfter: after }),
        }),
      )
      const found = page.Contents ?? []
      for (const { Key, ETag = "", LastModified } of found) {
        const changedAt = LastModified?.getTime() ?? 0
        objects.push({ key: Key!.slice(storePrefix.length), version: `${ETag} ${changedAt}`, changedAt })
      }
      after = found.at(-1)?.Key
      if (page.IsTruncated !== true || after === undefined) break
    }
    return objects
  }

  async deletePrefix(prefix: string): Promise<void> {
    checkDeletedPrefix(prefix)
    const { bucket, prefix: storePrefix } = this.#options
    for (;;) {
      const keys = await this.list(prefix)
      if (keys.length === 0) return
      const Objects = keys.map((key) => ({ Key: storePrefix + key }))
      const { Errors } = await this.#client.send(new DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects, Quiet: true } }))
      const [failed] = Errors ?? []
      if (failed !== undefined) throw new Error(`could not delete ${failed.Key}: ${failed.Code} ${failed.Message ?? ""}`)
    }
  }

  /** Goes on after an upload that cannot be removed, and rejects at the end. */
  async removeUnfinished(olderThanMs: number): Promise<void> {
    const { bucket: Bucket } = this.#options
    const failures: unknown[] = []
    for await (const { Key, UploadId, Initiated } of this.#uploads()) {
      if (Initiated === undefined || Date.now() - Initiated.getTime() < olderThanMs) continue
      const abort = new AbortMultipartUploadCommand({ Bucket, Key, UploadId })
      await nullIf(this.#client.send(abort), isMissingUpload).catch((error: unknown) => failures.push(error))
    }
    if (failures.length > 0) throw failures[0]
  }

  /** Lists the uploads of Ork alone: other applications may use the same bucket. */
  async *#uploads(): AsyncGenerator<MultipartUpload> {
    const { bucket: Bucket, prefix } = this.#options
    for (const own of KEY_PREFIXES) {
      for (let marker: Pick<ListMultipartUploadsCommandInput, "KeyMarker" | "UploadIdMarker"> | null = {}; marker !== null;) {
        const page: ListMultipartUploadsCommandOutput = await this.#client.send(
          new ListMultipartUploadsCommand({ Bucket, Prefix: prefix + own, ...marker }),
        )
        yield* page.Uploads ?? []
        marker = page.IsTruncated === true ? { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker } : null
      }
    }
  }

  async check(): Promise<void> {
    try {
      await probe(this.failFast ?? this)
    } catch (error) {
      throw this.#explain(error)
    }
  }

  #explain(error: unknown): Error {
    if (error instanceof ObjectStoreError) return error
    const { bucket, prefix, endpoint } = this.#options
    return new ObjectStoreError(`s3://${bucket}/${prefix}`, explainS3(error, bucket, endpoint ?? "Amazon S3"), {
      cause: error,
      transient: isTransient(error),
    })
  }

  #location(key: string): ObjectLocation {
    return { Bucket: this.#options.bucket, Key: this.#options.prefix + checkKey(key) }
  }
}
