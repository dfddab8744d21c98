// A resumable upload of an object of unknown length in chunks. The object appears with the last chunk. A chunk that the server received
// partially is continued from there.

import { type GcsClient, GcsError } from "./client.ts"

/** A multiple of 256 KiB, as the protocol requires. */
export const CHUNK_BYTES = 8 << 20

const INCOMPLETE = 308
/** Consecutive requests without progress. */
const MAX_STALLS = 5

export class ResumableUpload {
  readonly #client: GcsClient
  readonly #address: string
  #sent = 0

  private constructor(client: GcsClient, address: string) {
    this.#client = client
    this.#address = address
  }

  static async begin(client: GcsClient, bucket: string, name: string): Promise<ResumableUpload> {
    const { headers } = await client.send({
      method: "POST",
      path: `/upload/storage/v1/b/${bucket}/o`,
      query: { uploadType: "resumable", name },
      headers: { "x-upload-content-type": "application/octet-stream" },
    })
    const address = headers.get("location")
    if (address === null) throw new Error("Google Cloud Storage returned no address for an upload")
    return new ResumableUpload(client, address)
  }

  /** Sends a chunk of CHUNK_BYTES, or with `last` the final chunk of any size. */
  async send(chunk: Uint8Array, last: boolean): Promise<void> {
    const start = this.#sent
    const end = start + chunk.byteLength
    const total = last ? String(end) : "*"
    for (let stalls = 0; ;) {
      const range = this.#sent === end ? `bytes */${total}` : `bytes ${this.#sent}-${end - 1}/${total}`
      const response = await this.#client.send(
        { method: "PUT", path: this.#address, headers: { "content-range": range }, body: chunk.subarray(this.#sent - start) },
        [INCOMPLETE],
      )
      if (response.status !== INCOMPLETE) return void (this.#sent = end)
      const received = Number(/-(\d+)$/.exec(response.headers.get("range") ?? "")?.[1] ?? -1) + 1
      if (received < start) throw new GcsError(response.status, "the upload has lost a chunk")
      if (received === end && !last) return void (this.#sent = end)
      stalls = received > this.#sent ? 0 : stalls + 1
      if (stalls > MAX_STALLS) throw new GcsError(response.status, "the upload makes no progress")
      this.#sent = received
    }
  }

  /** Cancels the upload; the server discards its chunks. Never rejects. */
  async cancel(): Promise<void> {
    await this.#client.send({ method: "DELETE", path: this.#address }, [499, 404, 410]).catch(() => undefined)
  }
}
