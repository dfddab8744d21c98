// The four pipes of a worker process: its stdout, its stderr, and one for messages in each direction. They are named pipes, since
// the process is started by the spawn helper, which hands no descriptors over. This side holds both ends of each, so that none
// ends before the worker has opened it; that the worker is gone is told by the helper.

import { constants, openSync } from "node:fs"
import { Socket } from "node:net"
import { join } from "node:path"

const NAMES = ["out", "err", "up", "down"] as const

export const pipePaths = (folder: string): string[] => NAMES.map((name) => join(folder, name))

/** Starts a program with these pipes: stdout, stderr, 3 to write messages, 4 to read them. */
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
    // A worker that has gone is told of elsewhere.
    for (const socket of [this.out, this.err, this.up, this.down]) socket.on("error", () => {})
  }

  /** The worker sees its input end, and ends. */
  hangUp(): void {
    this.down.destroy()
  }

  close(): void {
    for (const socket of [this.out, this.err, this.up, this.down]) socket.destroy()
  }
}

/**
 * Calls back when all that a worker wrote before the message that was just read has been read too: whatever was in its pipes then
 * is taken by the next turn of the event loop at the latest.
 */
export const afterReading = (then: () => void): void => {
  setImmediate(() => setImmediate(then))
}
