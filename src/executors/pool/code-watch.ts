// Which code files the workers of one folder have loaded, and whether one of them is another now.

import { statSync } from "node:fs"
import type { CodeFile } from "./frames.ts"

/** Looks are no more often than that: a flood of small tasks must not be a flood of looks. */
const LOOK_MS = 50

export class CodeWatch {
  readonly #files = new Map<string, string>()
  #lookedAt = Number.NEGATIVE_INFINITY
  /** Two workers have loaded one file in two states. */
  #mixed = false

  add(files: readonly CodeFile[]): void {
    for (const [path, mtimeMs, size] of files) {
      const found = mark(mtimeMs, size)
      if ((this.#files.get(path) ?? found) !== found) this.#mixed = true
      this.#files.set(path, found)
    }
  }

  /** True once for each change: what was known is forgotten with it. */
  changed(now: number): boolean {
    if (now - this.#lookedAt < LOOK_MS) return false
    this.#lookedAt = now
    if (!this.#mixed && [...this.#files].every(([path, known]) => markOf(path) === known)) return false
    this.#files.clear()
    this.#mixed = false
    return true
  }
}

const markOf = (path: string): string | null => {
  const found = statSync(path, { throwIfNoEntry: false })
  return found === undefined ? null : mark(found.mtimeMs, found.size)
}

const mark = (mtimeMs: number, size: number): string => `${Math.floor(mtimeMs)}:${size}`
