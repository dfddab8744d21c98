// Takes the timestamps off a log that was asked for with them, and by them leaves out what was had before when the log is asked for again:
// a broken connection loses no line and doubles none. A line of any length costs no memory.

const NEWLINE = 0x0a
const SPACE = 0x20
/** `2026-01-02T03:04:05.123456789+02:00` */
const MAX_STAMP = 64

export class LogLines {
  /** Stamp of the last whole line, and how many lines had it. */
  #last = ""
  #count = 0
  /** Bytes that were had of the line after it. */
  #partial = 0
  // -- of this connection
  #stamp: Buffer[] = []
  #inText = false
  #current = ""
  /** Of the current line: those had before that are still to be left out; null: all of it. */
  #skip: number | null = 0
  #had = 0
  #resumed = false
  #equal = 0

  /** For `sinceTime` of the next request; the server cuts it to the second. null: from the beginning. */
  get since(): string | null {
    return this.#last === "" ? null : this.#last
  }

  /** A new connection gives the log from `since` on. */
  resume(): void {
    this.#stamp = []
    this.#inText = false
    this.#resumed = this.#last !== "" || this.#partial > 0
    this.#equal = 0
  }

  /** What is new of it. */
  read(chunk: Buffer): Buffer {
    const out: Buffer[] = []
    let at = 0
    while (at < chunk.length) {
      if (!this.#inText) {
        const end = chunk.indexOf(SPACE, at)
        const line = chunk.indexOf(NEWLINE, at)
        // An empty line may come with nothing behind its stamp.
        const stop = end < 0 ? line : line < 0 ? end : Math.min(end, line)
        this.#stamp.push(chunk.subarray(at, stop < 0 ? chunk.length : stop))
        if (stop < 0 && this.#stamp.reduce((sum, piece) => sum + piece.length, 0) < MAX_STAMP) return Buffer.concat(out)
        at = stop < 0 ? chunk.length : stop === end ? stop + 1 : stop
        this.#begin()
        continue
      }
      const end = chunk.indexOf(NEWLINE, at)
      const stop = end < 0 ? chunk.length : end + 1
      const text = this.#fresh(chunk.subarray(at, stop))
      if (text.length > 0) out.push(text)
      at = stop
      if (end >= 0) this.#finish()
    }
    return out.length === 1 ? out[0]! : Buffer.concat(out)
  }

  #begin(): void {
    this.#current = Buffer.concat(this.#stamp).toString("latin1")
    this.#stamp = []
    this.#inText = true
    this.#had = 0
    this.#skip = this.#resumed ? this.#old() : 0
  }

  /** How much of this line was had before; null: all of it. */
  #old(): number | null {
    const order = this.#last === "" ? 1 : compareStamps(this.#current, this.#last)
    if (order < 0) return null
    if (order === 0 && this.#equal < this.#count) {
      this.#equal += 1
      return null
    }
    this.#resumed = false
    return this.#partial
  }

  #fresh(text: Buffer): Buffer {
    if (this.#skip === null) return Buffer.alloc(0)
    const skipped = Math.min(this.#skip, text.length)
    this.#skip -= skipped
    this.#had += text.length
    this.#partial = Math.max(this.#partial, this.#had)
    return text.subarray(skipped)
  }

  #finish(): void {
    this.#inText = false
    if (this.#skip === null) return
    this.#count = this.#current === this.#last ? this.#count + 1 : 1
    this.#last = this.#current
    this.#partial = 0
  }
}

/** Fractions of a second may be of any length, and zones differ. */
export const compareStamps = (a: string, b: string): number => {
  if (a === b) return 0
  const [first, second] = [partsOf(a), partsOf(b)]
  if (first.seconds !== second.seconds) return first.seconds - second.seconds
  return first.fraction < second.fraction ? -1 : first.fraction > second.fraction ? 1 : 0
}

const partsOf = (stamp: string): { seconds: number; fraction: string } => {
  const match = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(.*)$/.exec(stamp)
  if (match === null) return { seconds: Number.POSITIVE_INFINITY, fraction: "" }
  return { seconds: Date.parse(match[1]! + match[3]!), fraction: (match[2] ?? "").padEnd(9, "0") }
}
