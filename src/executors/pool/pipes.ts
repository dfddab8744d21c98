// The four pipes of a worker process: stdout, stderr, and one for messages in each direction. They are named pipes, because the
// spawn helper that starts the process passes no descriptors. This process opens both ends of each, so that none closes before
// the worker has opened it; the helper reports the exit of the worker.

import { constants, openSync } from "node:fs"
import { Socket } from "node:net"
import { join } from "node:path"

const NAMES = ["out", "err", "up", "down"] as const

export const pipePaths = (folder: string): string[] => NAMES.map((name) => join(folder, name))

/** Returns a command that runs a program with these pipes: stdout, stderr, 3 to write messages, 4 to read them. */
export const withPipes = (folder: string, argv: string[]): string[] => {
  const [out, err, up, down] = pipePaths(folder)
  const script = 'o=$1 e=$2 u=$3 d=$4; shift 4; exec "$@" >"$o" 2>"$e" 3>"$u" 4<"$d"'
  return ["/bin/sh", "-c", script, "sh", out!, err!, up!, down!, ...argv]
}

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
