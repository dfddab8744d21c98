// Watches the source files of a folder and the folders below. Leaves out node_modules and hidden folders, which a recursive watch of Node
// would read in full.

import { type FSWatcher, readdirSync, watch } from "node:fs"
import { join, relative } from "node:path"

/** Editors write a file in several steps. */
const DEBOUNCE_MS = 100
const SOURCES = /\.(?:[cm]?[jt]sx?|json|ya?ml)$/
const OTHER_FOLDERS = /^(?:node_modules|\..+)$/

export class SourceWatcher {
  readonly #root: string
  readonly #changed: (file: string) => void
  readonly #watchers = new Map<string, FSWatcher>()
  #timer: NodeJS.Timeout | null = null

  /** Calls `changed` with the path of a changed file, relative to the root. */
  constructor(root: string, changed: (file: string) => void) {
    this.#root = root
    this.#changed = changed
    this.#watch(root)
  }

  stop(): void {
    for (const watcher of this.#watchers.values()) watcher.close()
    this.#watchers.clear()
    if (this.#timer !== null) clearTimeout(this.#timer)
  }

  #watch(folder: string): void {
    const isKnown = this.#watchers.has(folder)
    try {
      if (!isKnown)
        this.#watchers.set(
          folder,
          watch(folder, (_, name) => this.#onEvent(folder, name)),
        )
      for (const entry of readdirSync(folder, { withFileTypes: true })) {
        if (entry.isDirectory() && !OTHER_FOLDERS.test(entry.name)) this.#watch(join(folder, entry.name))
      }
    } catch {
      // The folder was removed.
      this.#watchers.get(folder)?.close()
      this.#watchers.delete(folder)
    }
  }

  #onEvent(folder: string, name: string | null): void {
    if (name === null) return
    if (!SOURCES.test(name)) {
      if (!OTHER_FOLDERS.test(name)) this.#watch(folder)
      return
    }
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#changed(relative(this.#root, join(folder, name))), DEBOUNCE_MS)
  }
}
