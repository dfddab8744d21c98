// Which code files the workers of one folder have loaded, and whether one of them is another now.

import { statSync } from "node:fs"
import type { CodeFile } from "./frames.ts"

/** Looks are no more often than that: a flood of small tasks must not be a flood of looks. */
const LOOK_MS = 50

export class CodeWatch {
  readonly #files = new Map<string, string>()
  #lookedAt = Number.NEGATIVE_INFINITY

  add(files: readonly CodeFile[]): void {
    for (const [path, mtimeMs, size] of files) this.#files.set(path, mark(mtimeMs, size))
  }

  /** True once for each change: what was known is forgotten with it. */
  changed(now: number): boolean {
    if (now - this.#lookedAt < LOOK_MS) return false
    this.#lookedAt = now
    for (const [path, known] of this.#files) {
      const found = statSync(path, { throwIfNoEntry: false })
      if (found !== undefined && mark(found.mtimeMs, found.size) === known) continue
      this.#files.clear()
      return true
    }
    return false
  }
}

const mark = (mtimeMs: number, size: number): string => `${Math.floor(mtimeMs)}:${size}`
