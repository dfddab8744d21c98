// Tracks the code files that the workers of one folder have loaded, and detects changes.

import { statSync } from "node:fs"
import type { CodeFile } from "./frames.ts"

/** Minimum interval between checks, so that many small tasks do not cause many checks. */
const CHECK_MS = 50

export class CodeFiles {
  readonly #files = new Map<string, string>()
  #checkedAt = Number.NEGATIVE_INFINITY
  /** True when two workers have loaded different versions of a file. */
  #mixed = false

  add(files: readonly CodeFile[]): void {
    for (const [path, mtimeMs, size] of files) {
      const version = versionOf(mtimeMs, size)
      if ((this.#files.get(path) ?? version) !== version) this.#mixed = true
      this.#files.set(path, version)
    }
  }

  /** Returns true once for each change, and then forgets all files. */
  changed(now: number): boolean {
    if (now - this.#checkedAt < CHECK_MS) return false
    this.#checkedAt = now
    if (!this.#mixed && [...this.#files].every(([path, version]) => currentVersion(path) === version)) return false
    this.#files.clear()
    this.#mixed = false
    return true
  }
}

const currentVersion = (path: string): string | null => {
  const found = statSync(path, { throwIfNoEntry: false })
  return found === undefined ? null : versionOf(found.mtimeMs, found.size)
}

const versionOf = (mtimeMs: number, size: number): string => `${Math.floor(mtimeMs)}:${size}`
