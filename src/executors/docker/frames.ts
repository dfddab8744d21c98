// The engine sends stdout and stderr in one stream: frames of `u8 stream, 3 × 0, u32 length (big-endian), bytes`. What comes is passed on at
// once, so a frame of any size costs no memory.

import type { LogStream } from "../../objects/logs/log-chunks.ts"

const HEADER_BYTES = 8
/** 0: echoed input; 3: the engine's own errors. */
const STREAMS: Readonly<Record<number, LogStream>> = { 0: "stdout", 1: "stdout", 2: "stderr", 3: "stderr" }

export interface Piece {
  stream: LogStream
  bytes: Buffer
}

export class FrameReader {
  #header: Buffer = Buffer.alloc(0)
  #stream: LogStream = "stdout"
  #left = 0

  /** Throws on bytes that are no frames. */
  read(chunk: Buffer): Piece[] {
    const pieces: Piece[] = []
    let rest = chunk
    while (rest.length > 0) {
      if (this.#left === 0) {
        rest = this.#readHeader(rest)
        continue
      }
      const bytes = rest.subarray(0, this.#left)
      rest = rest.subarray(bytes.length)
      this.#left -= bytes.length
      pieces.push({ stream: this.#stream, bytes })
    }
    return pieces
  }

  #readHeader(chunk: Buffer): Buffer {
    const wanted = HEADER_BYTES - this.#header.length
    this.#header = Buffer.concat([this.#header, chunk.subarray(0, wanted)])
    if (this.#header.length < HEADER_BYTES) return Buffer.alloc(0)
    const stream = STREAMS[this.#header[0]!]
    if (stream === undefined || this.#header[1] !== 0 || this.#header[2] !== 0 || this.#header[3] !== 0) {
      throw new Error("the engine sent a log that is not in frames")
    }
    this.#stream = stream
    this.#left = this.#header.readUInt32BE(4)
    this.#header = Buffer.alloc(0)
    return chunk.subarray(wanted)
  }
}

/** Leaves out what was seen before: after a broken connection the log is read from its beginning again. */
export class SeenBytes {
  readonly #seen: Record<LogStream, number> = { stdout: 0, stderr: 0 }
  #skip: Record<LogStream, number> = { stdout: 0, stderr: 0 }

  restart(): void {
    this.#skip = { ...this.#seen }
  }

  fresh({ stream, bytes }: Piece): Buffer {
    const skipped = Math.min(this.#skip[stream], bytes.length)
    this.#skip[stream] -= skipped
    const rest = bytes.subarray(skipped)
    this.#seen[stream] += rest.length
    return rest
  }
}
