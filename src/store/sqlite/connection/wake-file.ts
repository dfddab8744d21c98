// Wakes other processes on the same database file: a process rewrites `<db>.wake` after a commit that concerns others, and each
// process watches the file. A process ignores its own writes by their mark.

import { type FSWatcher, readFileSync, watch, writeFileSync } from "node:fs"

export interface WakeFile {
  /** Wakes the other processes. */
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
        writeFileSync(file, `${mark} ${++touches}\n`, { mode: 0o600 })
      } catch {
        // The commit is done; the other processes see it at their next turn.
      }
    },
    listen(wake) {
      listeners.push(wake)
      if (watcher !== null) return
      if (read(file) === "") writeFileSync(file, "", { flag: "a", mode: 0o600 })
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
