// Keeps the last non-blank line of a stream in memory, for a log that has no space for it.

const NEWLINE = 0x0a
/** Longer lines are dropped. */
const MAX_BYTES = 65_536

export class LastLineBuffer {
  #bytes: Buffer = Buffer.alloc(0)
  /** True while the rest of a line that is too long arrives. */
  #skipping: boolean

  /** `skip`: ignores bytes up to the first newline. */
  constructor({ skip }: { skip: boolean }) {
    this.#skipping = skip
  }

  /** The line with its newline, if that has arrived; empty when there is none. */
  get bytes(): Buffer {
    return this.#bytes
  }

  add(data: Buffer): void {
    const from = this.#skipping ? data.indexOf(NEWLINE) + 1 : 0
    if (this.#skipping && from === 0) return
    this.#skipping = false
    const bytes = Buffer.concat([this.#bytes, data.subarray(from)])
    const end = bytes.findLastIndex((byte) => !isBlankByte(byte)) + 1
    const start = end === 0 ? bytes.length : bytes.lastIndexOf(NEWLINE, end - 1) + 1
    const newline = bytes.indexOf(NEWLINE, Math.max(end, start))
    const line = bytes.subarray(start, newline < 0 ? undefined : newline + 1)
    const tooLong = line.length > MAX_BYTES
    this.#skipping = tooLong && newline < 0
    this.#bytes = tooLong ? Buffer.alloc(0) : Buffer.from(line)
  }
}

export const isBlankByte = (byte: number): boolean => byte === 0x20 || (byte >= 0x09 && byte <= 0x0d)
