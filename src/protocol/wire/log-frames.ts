// Encodes parts of the logs of several attempts into one body. A frame is the u32 length of its header, the header as JSON, index records
// (objects/logs/log-index.ts) and raw bytes. It contains its position in the log, so that sending it twice changes nothing.

export const RECORD_BYTES = 24

export interface FrameHeader {
  row: number
  attempt_id: string
  token: string
  /** Number of the frame in its log, from 1. */
  number: number
  /** Position of the first byte in the raw log, and of the first record in the index. */
  offset: number
  record: number
  bytes: number
  records: number
}

export interface Frame extends FrameHeader {
  raw: Buffer
  index: Buffer
}

export const encodeFrame = (header: Omit<FrameHeader, "bytes" | "records">, index: Buffer, raw: Buffer): Buffer[] => {
  const text = Buffer.from(JSON.stringify({ ...header, bytes: raw.length, records: index.length / RECORD_BYTES }))
  const length = Buffer.alloc(4)
  length.writeUInt32LE(text.length)
  return [length, text, index, raw]
}

const NUMBERS = ["row", "number", "offset", "record", "bytes", "records"] as const
const MAX_HEADER = 1000

/** Returns the frames of a body, or null when it is not made of frames. */
export const decodeFrames = (body: Buffer): Frame[] | null => {
  const frames: Frame[] = []
  for (let at = 0; at < body.length;) {
    const length = at + 4 <= body.length ? body.readUInt32LE(at) : MAX_HEADER + 1
    const header = length > MAX_HEADER ? null : parseHeader(body.toString("utf8", at + 4, at + 4 + length))
    if (header === null) return null
    const index = at + 4 + length
    const raw = index + header.records * RECORD_BYTES
    const end = raw + header.bytes
    if (end > body.length) return null
    frames.push({ ...header, index: body.subarray(index, raw), raw: body.subarray(raw, end) })
    at = end
  }
  return frames
}

const parseHeader = (text: string): FrameHeader | null => {
  let value: Partial<FrameHeader>
  try {
    value = JSON.parse(text) as Partial<FrameHeader>
  } catch {
    return null
  }
  const hasNumbers = NUMBERS.every((name) => Number.isSafeInteger(value[name]) && value[name]! >= 0)
  return hasNumbers && typeof value.attempt_id === "string" && typeof value.token === "string" ? (value as FrameHeader) : null
}
