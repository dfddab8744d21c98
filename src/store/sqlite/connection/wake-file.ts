// Wakes other processes on the same database file: a process writes to `<db>.wake` after a commit that concerns others, and each
// process watches the file. A process ignores its own writes by their mark.
//
// It writes in place: ext4 writes a truncated file out with the next sync, which doubles the time of a commit.

import {
  closeSync,
  constants,
  fstatSync,
  type FSWatcher,
  openSync,
  readFileSync,
  watch,
  writeFileSync,
  writeSync,
} from "node:fs"

/** Digits of the number of a write, so that all writes of a process have one length. */
const DIGITS = 12

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
  let descriptor: number | null = null

  const close = (): void => {
    if (descriptor !== null) closeSync(descriptor)
    descriptor = null
  }

  const changed = (): void => {
    const text = read(file)
    if (text === "" || text === seen) return
    seen = text
    if (!text.startsWith(mark)) for (const wake of listeners) wake()
  }

  return {
    touch() {
      try {
        // Somebody has deleted it.
        if (descriptor !== null && fstatSync(descriptor).nlink === 0) close()
        descriptor ??= openSync(file, constants.O_WRONLY | constants.O_CREAT, 0o600)
        writeSync(descriptor, `${mark} ${String(++touches).padStart(DIGITS, "0")}\n`, 0)
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
      close()
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
