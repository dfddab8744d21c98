import fc from "fast-check"
import { expect, test } from "vitest"
import { decodeFrames, encodeFrame, RECORD_BYTES } from "./log-frames.ts"

const frame = fc.record({
  row: fc.nat(),
  attempt_id: fc.uuid(),
  token: fc.string({ maxLength: 40 }),
  number: fc.nat(),
  offset: fc.nat(),
  record: fc.nat(),
  index: fc.nat({ max: 3 }).map((records) => Buffer.alloc(records * RECORD_BYTES, 7)),
  raw: fc.uint8Array({ maxLength: 50 }).map((bytes) => Buffer.from(bytes)),
})

const encode = (frames: { index: Buffer; raw: Buffer }[]): Buffer =>
  Buffer.concat(frames.flatMap(({ index, raw, ...header }) => encodeFrame(header as never, index, raw)))

test("decoded frames equal the encoded ones", () => {
  fc.assert(
    fc.property(fc.array(frame), (frames) => {
      const back = decodeFrames(encode(frames))!
      expect(back).toMatchObject(frames)
      expect(back).toHaveLength(frames.length)
    }),
  )
})

test("a truncated or foreign body has no frames", () => {
  fc.assert(
    fc.property(frame, fc.nat(), (one, cut) => {
      const body = encode([one])
      expect(decodeFrames(body.subarray(0, 1 + (cut % (body.length - 1))))).toBeNull()
    }),
  )
  expect(decodeFrames(Buffer.from("not frames at all, but a line of text"))).toBeNull()
  expect(decodeFrames(Buffer.alloc(0))).toEqual([])
})
