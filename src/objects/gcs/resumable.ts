// A resumable upload: chunks of an object whose length is not known yet. The object appears with the last one. A chunk that was cut off goes on
// where the server says that it is.

import { type GcsClient, GcsError } from "./client.ts"

/** A multiple of 256 KiB, as the protocol asks for. */
export const CHUNK_BYTES = 8 << 20

const INCOMPLETE = 308
/** Chunks of which the server keeps nothing, in a row. */
const MAX_STALLS = 5

export class ResumableUpload {
  readonly #client: GcsClient
  readonly #session: string
  #sent = 0

  private constructor(client: GcsClient, session: string) {
    this.#client = client
    this.#session = session
  }

  static async begin(client: GcsClient, bucket: string, name: string): Promise<ResumableUpload> {
    const { headers } = await client.send({
      method: "POST",
      path: `/upload/storage/v1/b/${bucket}/o`,
      query: { uploadType: "resumable", name },
      headers: { "x-upload-content-type": "application/octet-stream" },
    })
    const session = headers.get("location")
    if (session === null) throw new Error("Google Cloud Storage gave no address for an upload")
    return new ResumableUpload(client, session)
  }

  /** `last`: the object ends with this chunk. Others have CHUNK_BYTES. */
  async send(chunk: Uint8Array, last: boolean): Promise<void> {
    const start = this.#sent
    const end = start + chunk.byteLength
    const total = last ? String(end) : "*"
    for (let stalls = 0; ;) {
      const range = this.#sent === end ? `bytes */${total}` : `bytes ${this.#sent}-${end - 1}/${total}`
      const answer = await this.#client.send(
        { method: "PUT", path: this.#session, headers: { "content-range": range }, body: chunk.subarray(this.#sent - start) },
        [INCOMPLETE],
      )
      if (answer.status !== INCOMPLETE) return void (this.#sent = end)
      const kept = Number(/-(\d+)$/.exec(answer.headers.get("range") ?? "")?.[1] ?? -1) + 1
      if (kept < start) throw new GcsError(answer.status, "a chunk that had been taken is gone from the upload")
      if (kept === end && !last) return void (this.#sent = end)
      stalls = kept > this.#sent ? 0 : stalls + 1
      if (stalls > MAX_STALLS) throw new GcsError(answer.status, "the upload does not go on")
      this.#sent = kept
    }
  }

  /** Nothing of it stays. */
  async cancel(): Promise<void> {
    await this.#client.send({ method: "DELETE", path: this.#session }, [499, 404, 410]).catch(() => undefined)
  }
}
