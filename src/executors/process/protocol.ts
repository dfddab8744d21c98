// The wire protocol of the spawn helpers, documented in native/ork-spawn.c: little-endian frames `u32 length, u8 type, u32 id,
// fields`; a string is `u32 length, bytes, NUL`. Ork and the helper in JavaScript use the same codec.

const FRAME = { start: 1, kill: 2, lease: 3, hello: 16, started: 17, failed: 18, exited: 19 } as const

/** Steps of a start, any of which may fail. */
export const STAGES = ["files", "cwd", "user", "exec", "limits", "fork", "sandbox"] as const
export type Stage = (typeof STAGES)[number]

/** Largest frame that a helper accepts. */
export const FRAME_MAX = 16 << 20

export interface StartRequest {
  /** Content that the helper writes to the stdin file, which it removes at the end; null when the file exists already. */
  input: Uint8Array | string | null
  homeOfUser: boolean
  argv: string[]
  /** NAME=value */
  env: string[]
  cwd: string
  stdinPath: string
  logPath: string
  outputPath: string
  runAs: string
  /** `runAs` must not be a user with the id 0. */
  notRoot: boolean
  memoryBytes: number
  cpuMillis: number
  /** Values to mask in the log, as returned by `maskValues`. */
  secrets: Buffer[]
  /**
   * Folder with the named pipes `out`, `err`, `up` and `down`, which become descriptors 1 to 4 of the process instead of its
   * log; "" for none. The helper opens them before it changes the user.
   */
  pipes: string
  /** Size of the log from which the rest is dropped. */
  maxLogBytes: number
}

export interface Hello {
  version: number
  namespace: boolean
  cgroups: "none" | "v1" | "v2"
  usable: boolean
  /** Bits of `PROTECTIONS` in sandbox.ts. */
  protections: number
}

export interface Failed {
  stage: Stage
  errno: number
  text: string
}

export interface Exited {
  code: number | null
  /** Signal number, 0 for none. */
  signal: number
  maxRssBytes: number
  userMicros: number
  systemMicros: number
  outOfMemory: boolean
  /** True when the task was signalled before its main process had ended. */
  stopRequested: boolean
  /** Error number of a log that is not complete, and of an output file that cannot be read; 0 for none. */
  logErrno: number
  outputErrno: number
  logSize: number
  /** The last non-blank line of stdout in the raw log; `split`: pieces of stderr are in between. */
  line: { offset: number; length: number; split: boolean }
  /** Size of the output file; -1 when there is none. */
  outputSize: number
  /** The content of a small output file, or of that line; null when neither is sent. */
  inlineOutput: { from: "output" | "line"; bytes: Buffer } | null
}

/** Events of a task: STARTED then EXITED, or FAILED alone. */
export type HelperEvent =
  | { kind: "hello"; hello: Hello }
  | { kind: "started"; id: number; pid: number }
  | { kind: "failed"; id: number; failed: Failed }
  | { kind: "exited"; id: number; exited: Exited }

export type HelperRequest =
  | { kind: "start"; id: number; start: StartRequest }
  | { kind: "kill"; id: number; signal: number }
  /** The helper ends with all tasks unless another lease follows within `ms`. */
  | { kind: "lease"; ms: number }

class FrameWriter {
  #buffer: Buffer
  #at = 9

  constructor(type: number, id: number, size = 4096) {
    this.#buffer = Buffer.allocUnsafe(size)
    this.#buffer.writeUInt8(type, 4)
    this.#buffer.writeUInt32LE(id, 5)
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#buffer.length) return
    const grown = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#at + bytes))
    this.#buffer.copy(grown, 0, 0, this.#at)
    this.#buffer = grown
  }

  u8(value: number): this {
    this.#reserve(1)
    this.#at = this.#buffer.writeUInt8(value, this.#at)
    return this
  }

  u32(value: number): this {
    this.#reserve(4)
    this.#at = this.#buffer.writeUInt32LE(value, this.#at)
    return this
  }

  i32(value: number): this {
    this.#reserve(4)
    this.#at = this.#buffer.writeInt32LE(value, this.#at)
    return this
  }

  i64(value: number): this {
    this.#reserve(8)
    this.#at = this.#buffer.writeBigInt64LE(BigInt(value), this.#at)
    return this
  }

  string(value: string | Uint8Array): this {
    // A UTF-16 unit has at most three bytes in UTF-8.
    this.#reserve(5 + (typeof value === "string" ? value.length * 3 : value.byteLength))
    const start = this.#at + 4
    let length = value.length
    if (typeof value === "string") length = this.#buffer.write(value, start)
    else this.#buffer.set(value, start)
    this.#buffer.writeUInt32LE(length, this.#at)
    this.#buffer.writeUInt8(0, start + length)
    this.#at = start + length + 1
    return this
  }

  list(values: (string | Uint8Array)[]): this {
    this.u32(values.length)
    for (const value of values) this.string(value)
    return this
  }

  end(): Buffer {
    this.#buffer.writeUInt32LE(this.#at - 4, 0)
    return this.#buffer.subarray(0, this.#at)
  }
}

class FrameReader {
  #at: number
  readonly #buffer: Buffer

  constructor(buffer: Buffer, at: number) {
    this.#buffer = buffer
    this.#at = at
  }

  u8(): number {
    return this.#buffer.readUInt8(this.#at++)
  }

  u32(): number {
    this.#at += 4
    return this.#buffer.readUInt32LE(this.#at - 4)
  }

  i32(): number {
    this.#at += 4
    return this.#buffer.readInt32LE(this.#at - 4)
  }

  i64(): number {
    this.#at += 8
    return Number(this.#buffer.readBigInt64LE(this.#at - 8))
  }

  bytes(): Buffer {
    const start = this.#at + 4
    const length = this.#buffer.readUInt32LE(this.#at)
    this.#at = start + length + 1
    return this.#buffer.subarray(start, start + length)
  }

  string(): string {
    return this.bytes().toString()
  }

  byteList(): Buffer[] {
    return Array.from({ length: this.u32() }, () => Buffer.from(this.bytes()))
  }

  list(): string[] {
    return Array.from({ length: this.u32() }, () => this.string())
  }
}

const WRITE_INPUT = 1
const HOME_OF_USER = 2
const NOT_ROOT = 4

export const encodeRequest = (request: HelperRequest): Buffer => {
  if (request.kind === "lease") return new FrameWriter(FRAME.lease, request.ms, 16).end()
  if (request.kind === "kill") return new FrameWriter(FRAME.kill, request.id, 16).i32(request.signal).end()
  const { start } = request
  const flags =
    (start.input === null ? 0 : WRITE_INPUT) | (start.homeOfUser ? HOME_OF_USER : 0) | (start.notRoot ? NOT_ROOT : 0)
  return new FrameWriter(FRAME.start, request.id)
    .u32(flags)
    .list(start.argv)
    .list(start.env)
    .string(start.cwd)
    .string(start.stdinPath)
    .string(start.logPath)
    .string(start.outputPath)
    .string(start.runAs)
    .string(start.input ?? "")
    .i64(start.memoryBytes)
    .u32(start.cpuMillis)
    .list(start.secrets)
    .string(start.pipes)
    .i64(start.maxLogBytes)
    .end()
}

const decodeRequest = (type: number, id: number, reader: FrameReader): HelperRequest => {
  if (type === FRAME.lease) return { kind: "lease", ms: id }
  if (type === FRAME.kill) return { kind: "kill", id, signal: reader.i32() }
  const flags = reader.u32()
  const start = {
    argv: reader.list(),
    env: reader.list(),
    cwd: reader.string(),
    stdinPath: reader.string(),
    logPath: reader.string(),
    outputPath: reader.string(),
    runAs: reader.string(),
    input: reader.bytes() as Uint8Array | null,
    memoryBytes: reader.i64(),
    cpuMillis: reader.u32(),
    // Copied, because the receive buffer is reused.
    secrets: reader.byteList(),
    pipes: reader.string(),
    maxLogBytes: reader.i64(),
    homeOfUser: (flags & HOME_OF_USER) !== 0,
    notRoot: (flags & NOT_ROOT) !== 0,
  }
  if ((flags & WRITE_INPUT) === 0) start.input = null
  return { kind: "start", id, start }
}

const CGROUPS = ["none", "v1", "v2"] as const
const INLINE_SOURCES = [null, "output", "line"] as const

export const encodeEvent = (event: HelperEvent): Buffer => {
  switch (event.kind) {
    case "hello": {
      const { version, namespace, cgroups, usable, protections } = event.hello
      return new FrameWriter(FRAME.hello, 0, 32)
        .u32(version)
        .u8(namespace ? 1 : 0)
        .u8(CGROUPS.indexOf(cgroups))
        .u8(usable ? 1 : 0)
        .u8(protections)
        .end()
    }
    case "started":
      return new FrameWriter(FRAME.started, event.id, 16).i32(event.pid).end()
    case "failed": {
      const { stage, errno, text } = event.failed
      return new FrameWriter(FRAME.failed, event.id, 64).u8(STAGES.indexOf(stage)).i32(errno).string(text).end()
    }
    case "exited": {
      const { exited } = event
      return new FrameWriter(FRAME.exited, event.id, 128)
        .i32(exited.code ?? -1)
        .i32(exited.signal)
        .i64(exited.maxRssBytes)
        .i64(exited.userMicros)
        .i64(exited.systemMicros)
        .u8((exited.outOfMemory ? 1 : 0) | (exited.line.split ? 2 : 0) | (exited.stopRequested ? 4 : 0))
        .i32(exited.logErrno)
        .i32(exited.outputErrno)
        .i64(exited.logSize)
        .i64(exited.line.offset)
        .i64(exited.line.length)
        .i64(exited.outputSize)
        .u8(INLINE_SOURCES.indexOf(exited.inlineOutput?.from ?? null))
        .string(exited.inlineOutput?.bytes ?? "")
        .end()
    }
    default:
      return event satisfies never
  }
}

const decodeExited = (reader: FrameReader): Exited => {
  const code = reader.i32()
  const signal = reader.i32()
  const maxRssBytes = reader.i64()
  const userMicros = reader.i64()
  const systemMicros = reader.i64()
  const flags = reader.u8()
  const logErrno = reader.i32()
  const outputErrno = reader.i32()
  const logSize = reader.i64()
  const line = { offset: reader.i64(), length: reader.i64(), split: (flags & 2) !== 0 }
  const outputSize = reader.i64()
  const from = INLINE_SOURCES[reader.u8()] ?? null
  // Copied, because the receive buffer is reused.
  const inlineOutput = from === null ? null : { from, bytes: Buffer.from(reader.bytes()) }
  return {
    code: code < 0 ? null : code,
    signal,
    maxRssBytes,
    userMicros,
    systemMicros,
    outOfMemory: (flags & 1) !== 0,
    stopRequested: (flags & 4) !== 0,
    logErrno,
    outputErrno,
    logSize,
    line,
    outputSize,
    inlineOutput,
  }
}

const decodeEvent = (type: number, id: number, reader: FrameReader): HelperEvent => {
  switch (type) {
    case FRAME.hello: {
      const version = reader.u32()
      const namespace = reader.u8() === 1
      const cgroups = CGROUPS[reader.u8()] ?? "none"
      const usable = reader.u8() === 1
      return { kind: "hello", hello: { version, namespace, cgroups, usable, protections: reader.u8() } }
    }
    case FRAME.started:
      return { kind: "started", id, pid: reader.i32() }
    case FRAME.failed: {
      const stage = STAGES[reader.u8()] ?? "exec"
      return { kind: "failed", id, failed: { stage, errno: reader.i32(), text: reader.string() } }
    }
    case FRAME.exited:
      return { kind: "exited", id, exited: decodeExited(reader) }
    default:
      throw new Error(`the spawn helper sent a frame of unknown type ${type}`)
  }
}

/** Splits a byte stream into frames. */
const frames = <T>(decode: (type: number, id: number, reader: FrameReader) => T): ((chunk: Buffer) => T[]) => {
  let rest: Buffer[] = []
  let have = 0
  return (chunk) => {
    rest.push(chunk)
    have += chunk.length
    const first = rest[0]!
    // The chunks of a large frame are joined once, when all of them have arrived.
    if (rest.length > 1 && first.length >= 4 && have < first.readUInt32LE(0) + 4) return []
    const buffer = rest.length === 1 ? first : Buffer.concat(rest)
    const found: T[] = []
    let at = 0
    while (buffer.length - at >= 4) {
      const length = buffer.readUInt32LE(at)
      if (buffer.length - at - 4 < length) break
      found.push(decode(buffer.readUInt8(at + 4), buffer.readUInt32LE(at + 5), new FrameReader(buffer, at + 9)))
      at += 4 + length
    }
    have = buffer.length - at
    rest = have > 0 ? [buffer.subarray(at)] : []
    return found
  }
}

export const eventDecoder = (): ((chunk: Buffer) => HelperEvent[]) => frames(decodeEvent)
export const requestDecoder = (): ((chunk: Buffer) => HelperRequest[]) => frames(decodeRequest)
