// The object store in a bucket of S3, or of a server that speaks its protocol. Credentials come by the standard chain of the AWS SDK
// (environment, profile, web identity, instance role). Objects appear whole; memory is bounded by one part of a multipart upload.

import {
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3"
import { ObjectStoreError } from "../errors.ts"
import { checkDeletedPrefix, checkKey, checkPrefix } from "../shared/keys.ts"
import type { ObjectStore, ObjectRange } from "../objects.ts"
import { probe } from "../shared/probe.ts"
import { explainS3, isBeyondEnd, isMissing } from "./errors.ts"
import { ChunkReader } from "../shared/chunk-reader.ts"
import { MIN_PART_BYTES, MultipartUpload, type ObjectLocation } from "./multipart.ts"

export interface S3Options {
  bucket: string
  /** Empty, or ends in `/`. */
  prefix: string
  /** null: Amazon's own. */
  endpoint: string | null
  region: string | null
  pathStyle: boolean
  /** The longest that one request may take. */
  requestMs?: number
}

/** Most keys that S3 lists or deletes at once. */
const PAGE = 1000
const CONNECT_MS = 5000
const REQUEST_MS = 120_000
/** For servers that have no regions. */
const ANY_REGION = "us-east-1"

export class S3ObjectStore implements ObjectStore {
  readonly kind = "s3"
  readonly #client: S3Client
  readonly #options: S3Options

  constructor(options: S3Options) {
    this.#options = options
    const region = options.region ?? process.env["AWS_REGION"] ?? (options.endpoint === null ? null : ANY_REGION)
    this.#client = new S3Client({
      forcePathStyle: options.pathStyle,
      maxAttempts: 5,
      // Checksums beyond what an operation needs are refused by older servers, and cost a second pass over streams.
      requestChecksumCalculation: "WHEN_REQUIRED",
      responseChecksumValidation: "WHEN_REQUIRED",
      requestHandler: {
        connectionTimeout: CONNECT_MS,
        // Alone it would only be a line in the log.
        requestTimeout: options.requestMs ?? REQUEST_MS,
        throwOnRequestTimeout: true,
        httpAgent: { maxSockets: 64, keepAlive: true },
        httpsAgent: { maxSockets: 64, keepAlive: true },
      },
      ...(options.endpoint !== null && { endpoint: options.endpoint }),
      ...(region !== null && { region }),
    })
    // Around every request: what it throws is for people, but for what the callers here understand.
    this.#client.middlewareStack.add(
      (next) => async (args) => {
        try {
          return await next(args)
        } catch (error) {
          throw isMissing(error) || isBeyondEnd(error) ? error : this.#explained(error)
        }
      },
      { step: "initialize", name: "explainErrors" },
    )
  }

  async put(key: string, data: Uint8Array | string): Promise<void> {
    const Body = typeof data === "string" ? Buffer.from(data) : data
    await this.#client.send(new PutObjectCommand({ ...this.#place(key), Body, ContentLength: Body.byteLength }))
  }

  async putStream(key: string, data: AsyncIterable<Uint8Array>): Promise<{ bytes: number }> {
    const place = this.#place(key)
    const source = data[Symbol.asyncIterator]()
    const taker = new ChunkReader(source)
    try {
      const first = await taker.read(MultipartUpload.firstBytes)
      if (taker.ended) await this.#client.send(new PutObjectCommand({ ...place, Body: first }))
      else {
        await MultipartUpload.write(this.#client, place, async (upload) => {
          for (let part = first; part.byteLength > 0; part = await taker.read(upload.nextBytes)) await upload.add(part)
        })
      }
    } finally {
      if (!taker.ended) await source.return?.()
    }
    return { bytes: taker.bytes }
  }

  async join(key: string, pieces: readonly ObjectRange[]): Promise<void> {
    const place = this.#place(key)
    const total = pieces.reduce((sum, { start, end }) => sum + end - start, 0)
    if (total < MIN_PART_BYTES) {
      const all = await Promise.all(pieces.map((piece) => this.#piece(piece)))
      await this.#client.send(new PutObjectCommand({ ...place, Body: Buffer.concat(all) }))
      return
    }
    await MultipartUpload.write(this.#client, place, async (upload) => {
      let held: Uint8Array[] = []
      let bytes = 0
      for (const { key: from, start, end } of pieces) {
        for (let at = start; at < end;) {
          const copied = bytes === 0 && end - at >= MIN_PART_BYTES
          const to = copied ? end : Math.min(end, at + MIN_PART_BYTES - bytes)
          if (copied) await upload.copy(this.#options.prefix + checkKey(from), at, to)
          else {
            held.push(await this.#piece({ key: from, start: at, end: to }))
            bytes += to - at
          }
          at = to
          if (bytes < MIN_PART_BYTES) continue
          await upload.add(Buffer.concat(held))
          held = []
          bytes = 0
        }
      }
      if (bytes > 0) await upload.add(Buffer.concat(held))
    })
  }

  async get(key: string): Promise<Uint8Array | null> {
    const { Body } = (await orNull(this.#client.send(new GetObjectCommand(this.#place(key))))) ?? {}
    return Body === undefined ? null : Body.transformToByteArray()
  }

  async getRange(key: string, start: number, end: number): Promise<Uint8Array | null> {
    if (end <= start) return (await this.size(key)) === null ? null : new Uint8Array()
    try {
      const Range = `bytes=${start}-${end - 1}`
      const { Body } = (await orNull(this.#client.send(new GetObjectCommand({ ...this.#place(key), Range })))) ?? {}
      return Body === undefined ? null : await Body.transformToByteArray()
    } catch (error) {
      if (isBeyondEnd(error)) return new Uint8Array()
      throw error
    }
  }

  async size(key: string): Promise<number | null> {
    const head = await orNull(this.#client.send(new HeadObjectCommand(this.#place(key))))
    return head === null ? null : (head.ContentLength ?? 0)
  }

  async list(prefix: string, options: { after?: string; limit?: number } = {}): Promise<string[]> {
    const { bucket, prefix: own } = this.#options
    const Prefix = own + checkPrefix(prefix)
    const limit = options.limit ?? PAGE
    const keys: string[] = []
    let after = options.after === undefined || options.after === "" ? undefined : own + options.after
    while (keys.length < limit) {
      const page = await this.#client.send(
        new ListObjectsV2Command({
          Bucket: bucket,
          Prefix,
          MaxKeys: Math.min(PAGE, limit - keys.length),
          ...(after !== undefined && { StartAfter: after }),
        }),
      )
      const found = (page.Contents ?? []).map(({ Key }) => Key!)
      keys.push(...found.map((key) => key.slice(own.length)))
      after = found.at(-1)
      if (page.IsTruncated !== true || after === undefined) break
    }
    return keys
  }

  async deletePrefix(prefix: string): Promise<void> {
    checkDeletedPrefix(prefix)
    const { bucket, prefix: own } = this.#options
    for (;;) {
      const keys = await this.list(prefix)
      if (keys.length === 0) return
      const Objects = keys.map((key) => ({ Key: own + key }))
      const { Errors } = await this.#client.send(new DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects, Quiet: true } }))
      const [failed] = Errors ?? []
      if (failed !== undefined) throw new Error(`could not delete ${failed.Key}: ${failed.Code} ${failed.Message ?? ""}`)
    }
  }

  async check(): Promise<void> {
    try {
      await probe(this)
    } catch (error) {
      throw this.#explained(error)
    }
  }

  #explained(error: unknown): Error {
    if (error instanceof ObjectStoreError) return error
    const { bucket, prefix, endpoint } = this.#options
    return new ObjectStoreError(`s3://${bucket}/${prefix}`, explainS3(error, bucket, endpoint ?? "Amazon S3"), { cause: error })
  }

  #place(key: string): ObjectLocation {
    return { Bucket: this.#options.bucket, Key: this.#options.prefix + checkKey(key) }
  }

  async #piece({ key, start, end }: ObjectRange): Promise<Uint8Array> {
    const bytes = await this.getRange(key, start, end)
    if (bytes === null || bytes.byteLength !== end - start) throw new Error(`${key} is not all there any more`)
    return bytes
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
