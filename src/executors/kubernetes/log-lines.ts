// Takes the timestamps off a log that was asked for with them, and leaves out what was had before when the log is asked for again: a broken
// connection loses no line and doubles none. What counts is how many lines of the last two seconds were had, since stamps of stdout and stderr
// may cross. A line of any length costs no memory.

const NEWLINE = 0x0a
const SPACE = 0x20
const LINE_END = Buffer.from("\n")
const NOTHING = Buffer.alloc(0)
const SECOND_MS = 1000
/** `2026-01-02T03:04:05.123456789+02:00` */
const MAX_STAMP = 64
const STAMP = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)$/

export class LogLines {
  /** The newest second of which a whole line was had, and the one before: the stamp of its first line, its place, and how many lines. */
  #seconds: { at: number; first: string; place: number; lines: number }[] = []
  #newest = ""
  #lines = 0
  /** Of the line after the last whole one: its stamp, and the bytes that were had of it. */
  #partial = { stamp: "", bytes: 0 }
  // -- of this connection
  #stamp: Buffer[] = []
  #inText = false
  #current = ""
  /** Bytes of the current line that were had before; null: all of it, or it is no line of the log. */
  #skip: number | null = 0
  #had = 0
  /** Lines that are still to be left out; null: the first of them has not come yet. */
  #old: number | null = 0
  #resumed = false

  /** For `sinceTime` of the next request, whole seconds as servers take it. null: from the beginning. */
  get since(): string | null {
    if (this.#newest === "") return null
    return new Date(partsOf(this.#newest).at - SECOND_MS).toISOString().replace(/\.\d+/, "")
  }

  /** A new connection gives the log from `since` on. */
  resume(): void {
    this.#stamp = []
    this.#inText = false
    this.#old = null
    this.#resumed = this.#newest !== ""
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
        const before = this.#begin()
        if (before.length > 0) out.push(before)
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

  /** What has to be said before the line: the end of one that broke off and cannot be had any more. */
  #begin(): Buffer {
    this.#current = Buffer.concat(this.#stamp).toString("latin1")
    this.#stamp = []
    this.#inText = true
    this.#had = 0
    this.#skip = null
    // Words of the kubelet itself, or the rest of a long line that began before `since`: neither has a stamp.
    if (!STAMP.test(this.#current) || this.#wasHad()) return NOTHING
    const { stamp, bytes } = this.#partial
    const same = bytes === 0 || stamp === this.#current
    this.#skip = same ? bytes : 0
    this.#partial = { stamp: this.#current, bytes: same ? bytes : 0 }
    // The log was rotated meanwhile.
    return same ? NOTHING : LINE_END
  }

  #wasHad(): boolean {
    if (this.#resumed && compareStamps(this.#current, this.#newest) <= 0) {
      if (this.#old === null) {
        const [first, ...more] = this.#seconds.toSorted((a, b) => a.place - b.place)
        if (this.#current === first?.first) this.#old = more.reduce((sum, { lines }) => sum + lines, first.lines) - 1
        return true
      }
      if (this.#old > 0) {
        this.#old -= 1
        return true
      }
    }
    this.#resumed = false
    return false
  }

  #fresh(text: Buffer): Buffer {
    if (this.#skip === null) return NOTHING
    const skipped = Math.min(this.#skip, text.length)
    this.#skip -= skipped
    this.#had += text.length
    this.#partial.bytes = Math.max(this.#partial.bytes, this.#had)
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
    if (known === undefined) this.#seconds.push({ at, first: stamp, place: this.#lines, lines: 1 })
    else known.lines += 1
    this.#lines += 1
    const oldest = partsOf(this.#newest).at - SECOND_MS
    if (known === undefined) this.#seconds = this.#seconds.filter((second) => second.at >= oldest)
  }
}

/** Fractions of a second may be of any length, and zones differ. */
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
