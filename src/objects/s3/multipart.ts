// One object in many parts, for what is too large or of unknown length: it appears whole when it is completed, and not at all when it
// is aborted. Parts but the last must have 5 MiB; there are at most 10,000.

import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  type S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
} from "@aws-sdk/client-s3"

export const MIN_PART_BYTES = 5 << 20
const PART_BYTES = 8 << 20
/** Parts grow after so many, so that their number holds for every size. */
const PARTS_PER_SIZE = 1000

export interface ObjectLocation {
  Bucket: string
  Key: string
}

export class MultipartUpload {
  readonly #client: S3Client
  readonly #place: ObjectLocation
  readonly #uploadId: string
  readonly #etags: string[] = []

  private constructor(client: S3Client, place: ObjectLocation, uploadId: string) {
    this.#client = client
    this.#place = place
    this.#uploadId = uploadId
  }

  /** `fill` adds the parts; the object is there when this resolves. */
  static async write(client: S3Client, place: ObjectLocation, fill: (upload: MultipartUpload) => Promise<void>): Promise<void> {
    const { UploadId } = await client.send(new CreateMultipartUploadCommand(place))
    const upload = new MultipartUpload(client, place, UploadId!)
    try {
      await fill(upload)
      await upload.#complete()
    } catch (error) {
      await client.send(new AbortMultipartUploadCommand({ ...place, UploadId })).catch(() => undefined)
      throw error
    }
  }

  /** How large the next part of a stream should be. */
  get nextBytes(): number {
    return PART_BYTES * (1 + Math.floor(this.#etags.length / PARTS_PER_SIZE))
  }

  static readonly firstBytes = PART_BYTES

  async add(body: Uint8Array): Promise<void> {
    const { ETag } = await this.#client.send(new UploadPartCommand({ ...this.#part(), Body: body }))
    this.#etags.push(ETag!)
  }

  /** Bytes [start, end) of another object of the same bucket, which never come here. */
  async copy(key: string, start: number, end: number): Promise<void> {
    const { CopyPartResult } = await this.#client.send(
      new UploadPartCopyCommand({
        ...this.#part(),
        CopySource: `${this.#place.Bucket}/${key.split("/").map(encodeURIComponent).join("/")}`,
        CopySourceRange: `bytes=${start}-${end - 1}`,
      }),
    )
    this.#etags.push(CopyPartResult!.ETag!)
  }

  #part(): ObjectLocation & { UploadId: string; PartNumber: number } {
    return { ...this.#place, UploadId: this.#uploadId, PartNumber: this.#etags.length + 1 }
  }

  async #complete(): Promise<void> {
    const Parts = this.#etags.map((ETag, i) => ({ ETag, PartNumber: i + 1 }))
    await this.#client.send(
      new CompleteMultipartUploadCommand({ ...this.#place, UploadId: this.#uploadId, MultipartUpload: { Parts } }),
    )
  }
}
