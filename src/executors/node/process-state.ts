// Detects what a function has left in its worker process that could affect the next task: timers and open handles, listeners,
// replaced output functions, the umask and the priority. State in modules is not checked: functions may use it as a cache.

import { getPriority } from "node:os"

export class ProcessState {
  readonly #before = describeState()

  /** Waits for handles that are closing. */
  async hasChanged(): Promise<boolean> {
    if (!isEqual(describeState(), this.#before)) await new Promise((resolve) => setImmediate(resolve))
    return !isEqual(describeState(), this.#before)
  }
}

const describeState = (): unknown[] => [
  currentUmask(),
  getPriority(),
  process.stdout.write,
  process.stderr.write,
  process.exitCode,
  ...process.eventNames().map((name) => `${String(name)} ${process.listenerCount(name)}`),
  ...process.getActiveResourcesInfo().toSorted(),
]

/** Reads the umask, which Node.js can only do by setting it. */
const currentUmask = (): number => {
  const umask = process.umask(0o077)
  process.umask(umask)
  return umask
}

const isEqual = (left: unknown[], right: unknown[]): boolean =>
  left.length === right.length && left.every((value, i) => value === right[i])
