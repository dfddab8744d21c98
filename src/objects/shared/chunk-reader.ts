// Takes a stream of unknown length in pieces of a wanted size, for stores that want to know how long what they are given is.

export class ChunkReader {
  readonly #source: AsyncIterator<Uint8Array>
  #rest: Uint8Array = new Uint8Array()
  ended = false
  bytes = 0

  constructor(source: AsyncIterator<Uint8Array>) {
    this.#source = source
  }

  /** Fewer only at the end. */
  async read(wanted: number): Promise<Buffer> {
    const pieces = [this.#rest]
    let length = this.#rest.byteLength
    while (length < wanted && !this.ended) {
      const next = await this.#source.next()
      if (next.done === true) this.ended = true
      else {
        pieces.push(next.value)
        length += next.value.byteLength
      }
    }
    const all = Buffer.concat(pieces)
    this.#rest = all.subarray(wanted)
    this.bytes += Math.min(wanted, all.length)
    return all.subarray(0, wanted)
  }
}
