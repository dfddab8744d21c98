// Reads a stream of unknown length in chunks of a given size, for stores that need the length of what they are given.

export class ChunkReader {
  readonly #source: AsyncIterator<Uint8Array>
  #rest: Uint8Array = new Uint8Array()
  /** True when the source has no more data; the last chunk may still be unread. */
  ended = false
  /** Bytes read so far. */
  bytes = 0

  constructor(source: AsyncIterator<Uint8Array>) {
    this.#source = source
  }

  /** Returns `size` bytes, fewer at the end of the stream. */
  async read(size: number): Promise<Buffer> {
    const pieces = [this.#rest]
    let length = this.#rest.byteLength
    while (length < size && !this.ended) {
      const next = await this.#source.next()
      if (next.done === true) this.ended = true
      else {
        pieces.push(next.value)
        length += next.value.byteLength
      }
    }
    const all = Buffer.concat(pieces)
    this.#rest = all.subarray(size)
    this.bytes += Math.min(size, all.length)
    return all.subarray(0, size)
  }
}
