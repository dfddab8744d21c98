// How processes on one database file wake each other: `<db>.wake` is rewritten after a commit of interest to others, and
// watched by the system. Nobody polls. A process does not wake itself: it knows its own mark.

import { type FSWatcher, readFileSync, watch, writeFileSync } from "node:fs"

export interface WakeFile {
  /** Tells the others. */
  touch(): void
  listen(wake: () => void): void
  close(): void
}

export const openWake = (path: string, mark: string): WakeFile => {
  const file = `${path}.wake`
  const listeners: (() => void)[] = []
  let watcher: FSWatcher | null = null
  let seen = read(file)
  let touches = 0

  const changed = (): void => {
    const text = read(file)
    if (text === "" || text === seen) return
    seen = text
    if (!text.startsWith(mark)) for (const wake of listeners) wake()
  }

  return {
    touch() {
      try {
        writeFileSync(file, `${mark} ${++touches}\n`)
      } catch {
        // The commit stands; others see it at their next turn.
      }
    },
    listen(wake) {
      listeners.push(wake)
      if (watcher !== null) return
      if (read(file) === "") writeFileSync(file, "", { flag: "a" })
      watcher = watch(file, { persistent: false }, changed)
      watcher.on("error", () => undefined)
    },
    close() {
      watcher?.close()
    },
  }
}

const read = (file: string): string => {
  try {
    return readFileSync(file, "utf8")
  } catch {
    return ""
  }
}
