// The four pipes of a worker process: stdout, stderr, and one for messages in each direction. They are named pipes in a folder
// that only this user may enter: the spawn helper opens them before it changes the user, and passes the descriptors. This
// process opens both ends of each, so that none closes before the worker has it; the helper reports the exit of the worker.

import { constants, openSync } from "node:fs"
import { Socket } from "node:net"
import { join } from "node:path"

const NAMES = ["out", "err", "up", "down"] as const

export const pipePaths = (folder: string): string[] => NAMES.map((name) => join(folder, name))

export class Pipes {
  readonly out: Socket
  readonly err: Socket
  readonly up: Socket
  readonly down: Socket

  constructor(folder: string) {
    const [out, err, up, down] = pipePaths(folder).map((path) => openSync(path, constants.O_RDWR | constants.O_NONBLOCK))
    const reader = (fd: number): Socket => new Socket({ fd, readable: true, writable: false })
    this.out = reader(out!)
    this.err = reader(err!)
    this.up = reader(up!)
    this.down = new Socket({ fd: down!, readable: false, writable: true })
    // The helper reports a worker that has ended.
    for (const socket of [this.out, this.err, this.up, this.down]) socket.on("error", () => {})
  }

  /** Closes the worker's input, which makes it exit. */
  closeInput(): void {
    this.down.destroy()
  }

  close(): void {
    for (const socket of [this.out, this.err, this.up, this.down]) socket.destroy()
  }
}

/**
 * Calls back when everything that a worker wrote before the current message has been read: the next iteration of the event loop
 * reads what its pipes contain.
 */
export const afterReading = (then: () => void): void => {
  setImmediate(() => setImmediate(then))
}
