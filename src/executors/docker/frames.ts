// Parses the engine's stream of stdout and stderr: frames of `u8 stream, 3 × 0, u32 length (big-endian), bytes`. Frames are
// never buffered, whatever their size.

import type { LogStream } from "../../objects/logs/log-index.ts"

const HEADER_BYTES = 8
/** Streams by number; 0 is echoed input, 3 errors of the engine. */
const STREAMS: Readonly<Record<number, LogStream>> = { 0: "stdout", 1: "stdout", 2: "stderr", 3: "stderr" }

export interface Piece {
  stream: LogStream
  bytes: Buffer
}

export class DockerFrameReader {
  #header: Buffer = Buffer.alloc(0)
  #stream: LogStream = "stdout"
  #left = 0

  /** Throws when the bytes are not frames. */
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
    const missing = HEADER_BYTES - this.#header.length
    this.#header = Buffer.concat([this.#header, chunk.subarray(0, missing)])
    if (this.#header.length < HEADER_BYTES) return Buffer.alloc(0)
    const stream = STREAMS[this.#header[0]!]
    if (stream === undefined || this.#header[1] !== 0 || this.#header[2] !== 0 || this.#header[3] !== 0) {
      throw new Error("the engine sent a log that is not in frames")
    }
    this.#stream = stream
    this.#left = this.#header.readUInt32BE(4)
    this.#header = Buffer.alloc(0)
    return chunk.subarray(missing)
  }
}

/** Skips bytes that were read before a broken connection: the log is then read again from its start. */
export class ByteDeduplicator {
  readonly #read: Record<LogStream, number> = { stdout: 0, stderr: 0 }
  #skip: Record<LogStream, number> = { stdout: 0, stderr: 0 }

  restart(): void {
    this.#skip = { ...this.#read }
  }

  newBytes({ stream, bytes }: Piece): Buffer {
    const skipped = Math.min(this.#skip[stream], bytes.length)
    this.#skip[stream] -= skipped
    const rest = bytes.subarray(skipped)
    this.#read[stream] += rest.length
    return rest
  }
}
