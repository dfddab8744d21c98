import fc from "fast-check"
import { expect, test } from "vitest"
import { encodeEvent, encodeRequest, eventDecoder, requestDecoder, STAGES } from "./protocol.ts"
import type { HelperEvent, HelperRequest } from "./protocol.ts"

const text = fc.string({ unit: "grapheme", maxLength: 20 })
const id = fc.integer({ min: 0, max: 0xffff_ffff })
const size = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER })
const bytes = fc.uint8Array({ maxLength: 40 }).map((array) => Buffer.from(array))

const request: fc.Arbitrary<HelperRequest> = fc.oneof(
  fc.record({ kind: fc.constant("kill" as const), id, signal: fc.integer({ min: 1, max: 64 }) }),
  fc.record({
    kind: fc.constant("start" as const),
    id,
    start: fc.record({
      input: fc.oneof(fc.constant(null), bytes),
      homeOfUser: fc.boolean(),
      argv: fc.array(text),
      env: fc.array(text),
      cwd: text,
      stdinPath: text,
      logPath: text,
      outputPath: text,
      runAs: text,
      notRoot: fc.boolean(),
      memoryBytes: size,
      cpuMillis: id,
      secrets: fc.array(bytes),
      pipes: text,
      maxLogBytes: size,
    }),
  }),
)

const event: fc.Arbitrary<HelperEvent> = fc.oneof(
  fc.record({ kind: fc.constant("started" as const), id, pid: fc.integer({ min: 1, max: 1 << 22 }) }),
  fc.record({
    kind: fc.constant("failed" as const),
    id,
    failed: fc.record({ stage: fc.constantFrom(...STAGES), errno: fc.integer({ min: 0, max: 200 }), text }),
  }),
  fc.record({
    kind: fc.constant("exited" as const),
    id,
    exited: fc.record({
      code: fc.oneof(fc.constant(null), fc.integer({ min: 0, max: 255 })),
      signal: fc.integer({ min: 0, max: 64 }),
      maxRssBytes: size,
      userMicros: size,
      systemMicros: size,
      outOfMemory: fc.boolean(),
      stopRequested: fc.boolean(),
      logErrno: fc.integer({ min: 0, max: 200 }),
      outputErrno: fc.integer({ min: 0, max: 200 }),
      logSize: size,
      line: fc.record({ offset: size, length: size, split: fc.boolean() }),
      outputSize: fc.oneof(fc.constant(-1), size),
      inlineOutput: fc.oneof(
        fc.constant(null),
        fc.record({ from: fc.constantFrom("output" as const, "line" as const), bytes }),
      ),
    }),
  }),
)

/** Feeds the frames in pieces of the given size. */
const feed = <T>(frames: Buffer[], step: number, decode: (chunk: Buffer) => T[]): T[] => {
  const all = Buffer.concat(frames)
  const found: T[] = []
  for (let at = 0; at < all.length; at += step) found.push(...decode(Buffer.from(all.subarray(at, at + step))))
  return found
}

test("events are decoded as they were encoded, wherever the stream is split", () => {
  fc.assert(
    fc.property(fc.array(event), fc.integer({ min: 1, max: 300 }), (events, step) => {
      expect(feed(events.map(encodeEvent), step, eventDecoder())).toEqual(events)
    }),
  )
})

test("requests are decoded as they were encoded, wherever the stream is split", () => {
  fc.assert(
    fc.property(fc.array(request), fc.integer({ min: 1, max: 300 }), (requests, step) => {
      expect(feed(requests.map(encodeRequest), step, requestDecoder())).toEqual(requests)
    }),
  )
})
