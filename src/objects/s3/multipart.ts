// A multipart upload, for objects that are large or of unknown length. The object appears when the upload is completed, and never if
// it is aborted. Every part but the last must have at least 5 MiB; there are at most 10,000 parts.

import { setTimeout as delay } from "node:timers/promises"
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  type S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
} from "@aws-sdk/client-s3"
import { isMissingUpload } from "./errors.ts"

/** Time that a failed upload waits for its removal. */
const ABORT_MS = 2000
export const MIN_PART_BYTES = 5 << 20
const PART_BYTES = 8 << 20
/** Number of parts after which their size grows, so that an object of any size fits into 10,000 parts. */
const PARTS_PER_SIZE = 1000

export interface ObjectLocation {
  Bucket: string
  Key: string
}

/** Must not have the name of the field `MultipartUpload`, which the compiler would rename in this class. */
export class PartsUpload {
  readonly #client: S3Client
  readonly #location: ObjectLocation
  readonly #uploadId: string
  readonly #etags: string[] = []

  private constructor(client: S3Client, location: ObjectLocation, uploadId: string) {
    this.#client = client
    this.#location = location
    this.#uploadId = uploadId
  }

  /** Creates an object from the parts that `fill` adds. */
  static async write(client: S3Client, location: ObjectLocation, fill: (upload: PartsUpload) => Promise<void>): Promise<void> {
    const { UploadId } = await client.send(new CreateMultipartUploadCommand(location))
    const upload = new PartsUpload(client, location, UploadId!)
    try {
      await fill(upload)
      await upload.#complete()
    } catch (error) {
      // Continues in the background while the store does not respond; later, `removeUnfinished` removes what is left.
      const aborted = client.send(new AbortMultipartUploadCommand({ ...location, UploadId })).catch(() => undefined)
      await Promise.race([aborted, delay(ABORT_MS, undefined, { ref: false })])
      throw error
    }
  }

  /** Size of the next part of a stream. */
  get nextPartBytes(): number {
    return PART_BYTES * (1 + Math.floor(this.#etags.length / PARTS_PER_SIZE))
  }

  static readonly firstPartBytes = PART_BYTES

  async add(body: Uint8Array): Promise<void> {
    const { ETag } = await this.#client.send(new UploadPartCommand({ ...this.#part(), Body: body }))
    this.#etags.push(ETag!)
  }

  /** Adds the bytes [start, end) of another object of the bucket; the server copies them. */
  async copy(key: string, start: number, end: number): Promise<void> {
    const { CopyPartResult } = await this.#client.send(
      new UploadPartCopyCommand({
        ...this.#part(),
        CopySource: `${this.#location.Bucket}/${key.split("/").map(encodeURIComponent).join("/")}`,
        CopySourceRange: `bytes=${start}-${end - 1}`,
      }),
    )
    this.#etags.push(CopyPartResult!.ETag!)
  }

  #part(): ObjectLocation & { UploadId: string; PartNumber: number } {
    return { ...this.#location, UploadId: this.#uploadId, PartNumber: this.#etags.length + 1 }
  }

  async #complete(): Promise<void> {
    const Parts = this.#etags.map((ETag, i) => ({ ETag, PartNumber: i + 1 }))
    const complete = { ...this.#location, UploadId: this.#uploadId, MultipartUpload: { Parts } }
    try {
      await this.#client.send(new CompleteMultipartUploadCommand(complete))
    } catch (error) {
      if (!isMissingUpload(error)) throw error
      // A request whose response was lost has completed it.
      await this.#client.send(new HeadObjectCommand(this.#location))
    }
  }
}
