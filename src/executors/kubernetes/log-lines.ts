// Strips the timestamps of a pod's log, and skips the lines that an earlier connection delivered: a broken connection loses no
// line and repeats none. Lines are counted per second, for the last two seconds, because timestamps of stdout and stderr may be
// out of order. Lines are never buffered, whatever their length.

const NEWLINE = 0x0a
const SPACE = 0x20
const LINE_END = Buffer.from("\n")
const EMPTY = Buffer.alloc(0)
const SECOND_MS = 1000
/** Longest timestamp, such as `2026-01-02T03:04:05.123456789+02:00`, with room to spare. */
const MAX_STAMP = 64
const STAMP = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$/

export class LogLines {
  /**
   * The newest second with a complete line, and the one before: the timestamp and index of its first line, and its number of
   * lines.
   */
  #seconds: { at: number; first: string; index: number; lines: number }[] = []
  #newest = ""
  #lines = 0
  /** The line after the last complete one: its timestamp, and the bytes that were delivered. */
  #partial = { stamp: "", bytes: 0 }
  // -- state of the current connection
  #stamp: Buffer[] = []
  #inText = false
  #current = ""
  /** Bytes of the current line to skip; null: all of it, because it was delivered before or is not a line of the log. */
  #skip: number | null = 0
  #received = 0
  /** Lines left to skip; null until the first of them has arrived. */
  #skipLines: number | null = 0
  #resumed = false

  /** `sinceTime` of the next request, in whole seconds as servers require; null: from the start of the log. */
  get since(): string | null {
    if (this.#newest === "") return null
    return new Date(partsOf(this.#newest).at - SECOND_MS).toISOString().replace(/\.\d+/, "")
  }

  /** Starts a new connection, which delivers the log from `since` on. */
  resume(): void {
    this.#stamp = []
    this.#inText = false
    this.#skipLines = null
    this.#resumed = this.#newest !== ""
  }

  /** Returns the new text of a chunk. */
  read(chunk: Buffer): Buffer {
    const out: Buffer[] = []
    let at = 0
    while (at < chunk.length) {
      if (!this.#inText) {
        const end = chunk.indexOf(SPACE, at)
        const line = chunk.indexOf(NEWLINE, at)
        // An empty line may have no space after its timestamp.
        const stop = end < 0 ? line : line < 0 ? end : Math.min(end, line)
        this.#stamp.push(chunk.subarray(at, stop < 0 ? chunk.length : stop))
        if (stop < 0 && this.#stamp.reduce((sum, piece) => sum + piece.length, 0) < MAX_STAMP) return Buffer.concat(out)
        at = stop < 0 ? chunk.length : stop === end ? stop + 1 : stop
        const before = this.#begin()
        if (before.length > 0) out.push(before)
        continue
      }
      const end = chunk.indexOf(NEWLINE, at)
      const stop = end < 0 ? chunk.length : end + 1
      const text = this.#newText(chunk.subarray(at, stop))
      if (text.length > 0) out.push(text)
      at = stop
      if (end >= 0) this.#finish()
    }
    return out.length === 1 ? out[0]! : Buffer.concat(out)
  }

  /** Starts a line. Returns what to write before it: the end of a partial line whose rest is lost. */
  #begin(): Buffer {
    this.#current = Buffer.concat(this.#stamp).toString("latin1")
    this.#stamp = []
    this.#inText = true
    this.#received = 0
    this.#skip = null
    // Messages of the kubelet itself, and the rest of a long line that began before `since`, have no timestamp.
    if (!STAMP.test(this.#current) || this.#isRepeated()) return EMPTY
    const { stamp, bytes } = this.#partial
    const same = bytes === 0 || stamp === this.#current
    this.#skip = same ? bytes : 0
    this.#partial = { stamp: this.#current, bytes: same ? bytes : 0 }
    // Another line follows a partial one when the log was rotated meanwhile.
    return same ? EMPTY : LINE_END
  }

  #isRepeated(): boolean {
    if (this.#resumed && compareStamps(this.#current, this.#newest) <= 0) {
      if (this.#skipLines === null) {
        const [first, ...more] = this.#seconds.toSorted((a, b) => a.index - b.index)
        if (this.#current === first?.first) this.#skipLines = more.reduce((sum, { lines }) => sum + lines, first.lines) - 1
        return true
      }
      if (this.#skipLines > 0) {
        this.#skipLines -= 1
        return true
      }
    }
    this.#resumed = false
    return false
  }

  #newText(text: Buffer): Buffer {
    if (this.#skip === null) return EMPTY
    const skipped = Math.min(this.#skip, text.length)
    this.#skip -= skipped
    this.#received += text.length
    this.#partial.bytes = Math.max(this.#partial.bytes, this.#received)
    return text.subarray(skipped)
  }

  #finish(): void {
    this.#inText = false
    if (this.#skip === null) return
    this.#partial = { stamp: "", bytes: 0 }
    const stamp = this.#current
    if (this.#newest === "" || compareStamps(stamp, this.#newest) > 0) this.#newest = stamp
    const { at } = partsOf(stamp)
    const known = this.#seconds.find((second) => second.at === at)
    if (known === undefined) this.#seconds.push({ at, first: stamp, index: this.#lines, lines: 1 })
    else known.lines += 1
    this.#lines += 1
    const oldest = partsOf(this.#newest).at - SECOND_MS
    if (known === undefined) this.#seconds = this.#seconds.filter((second) => second.at >= oldest)
  }
}

/** Compares timestamps with fractions of any length and different zones. */
export const compareStamps = (a: string, b: string): number => {
  if (a === b) return 0
  const [first, second] = [partsOf(a), partsOf(b)]
  if (first.at !== second.at) return first.at - second.at
  return first.fraction < second.fraction ? -1 : first.fraction > second.fraction ? 1 : 0
}

const partsOf = (stamp: string): { at: number; fraction: string } => {
  const [, time = "", fraction = "", zone = ""] = STAMP.exec(stamp) ?? []
  return { at: Date.parse(time + zone), fraction: fraction.padEnd(9, "0") }
}
