// Draws frames on a terminal, each over the one before: moves the cursor to the top of the last frame, rewrites it and clears the
// rest. Hides the cursor meanwhile; any exit of the process shows it again.

import { writeSync } from "node:fs"
import type { WriteStream } from "node:tty"
import { paint, type Span } from "../terminal/style.ts"
import { textWidth } from "../terminal/text.ts"

const HIDE = "\u001b[?25l"
const SHOW = "\u001b[?25h"
const CLEAR_LINE = "\u001b[K"
const CLEAR_BELOW = "\u001b[J"
const up = (rows: number): string => (rows === 0 ? "\r" : `\u001b[${rows}A\r`)

export class Screen {
  readonly #out: WriteStream
  readonly #colour: boolean
  #widths: number[] = []
  #open = false

  constructor(out: WriteStream, colour: boolean) {
    this.#out = out
    this.#colour = colour
  }

  get size(): { width: number; height: number } {
    return { width: Math.max(1, this.#out.columns || 80), height: Math.max(1, this.#out.rows || 24) }
  }

  draw(lines: readonly (readonly Span[])[]): void {
    if (!this.#open) {
      this.#open = true
      process.on("exit", this.#restore)
    }
    const { width } = this.size
    // Leaves the last column free: a full line would wrap.
    const lineWidth = Math.max(1, width - 1)
    const painted = lines.map((line) => paint(line, this.#colour, lineWidth) + CLEAR_LINE)
    const frame = painted.length === 0 ? "" : `${painted.join("\n")}\n`
    this.#out.write(HIDE + up(this.#rows(width)) + frame + CLEAR_BELOW)
    this.#widths = lines.map((line) => textWidth(paint(line, false, lineWidth)))
  }

  /** Leaves the last frame on the screen; later output follows it. */
  close(): void {
    if (!this.#open) return
    this.#out.write(SHOW)
    this.#widths = []
    this.#open = false
    process.off("exit", this.#restore)
  }

  /** Returns the rows that the last frame occupies; a window that became narrower has wrapped it. */
  #rows(width: number): number {
    return this.#widths.reduce((rows, line) => rows + Math.max(1, Math.ceil(line / width)), 0)
  }

  readonly #restore = (): void => {
    try {
      writeSync(process.stdout.fd, SHOW)
    } catch {
      // The terminal is gone.
    }
  }
}
