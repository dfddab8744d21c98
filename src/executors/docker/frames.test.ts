import fc from "fast-check"
import { expect, test } from "vitest"
import { DockerFrameReader, type Piece, ByteDeduplicator } from "./frames.ts"

const frame = (stream: number, text: string | Buffer): Buffer => {
  const bytes = Buffer.from(text)
  const header = Buffer.from([stream, 0, 0, 0, 0, 0, 0, 0])
  header.writeUInt32BE(bytes.length, 4)
  return Buffer.concat([header, bytes])
}

const join = (pieces: Piece[], stream: string): string =>
  Buffer.concat(pieces.filter((piece) => piece.stream === stream).map(({ bytes }) => bytes)).toString()

test("frames are parsed wherever the stream is split", () => {
  const frames = fc.array(fc.record({ stream: fc.constantFrom(1, 2), text: fc.string({ maxLength: 40 }) }), { maxLength: 12 })
  fc.assert(
    fc.property(frames, fc.array(fc.nat(30), { maxLength: 40 }), (written, cuts) => {
      const all = Buffer.concat(written.map(({ stream, text }) => frame(stream, text)))
      const reader = new DockerFrameReader()
      const pieces: Piece[] = []
      let at = 0
      for (const cut of cuts) {
        pieces.push(...reader.read(all.subarray(at, at + cut)))
        at += cut
      }
      pieces.push(...reader.read(all.subarray(at)))
      for (const [number, name] of [
        [1, "stdout"],
        [2, "stderr"],
      ] as const) {
        const expected = written.filter(({ stream }) => stream === number).map(({ text }) => text)
        expect(join(pieces, name)).toBe(Buffer.from(expected.join("")).toString())
      }
    }),
  )
})

test("errors of the engine are on stderr, and frames may be empty", () => {
  const pieces = new DockerFrameReader().read(Buffer.concat([frame(1, ""), frame(3, "engine"), frame(1, "task")]))
  expect([join(pieces, "stdout"), join(pieces, "stderr")]).toEqual(["task", "engine"])
})

test("bytes that are not frames are rejected", () => {
  expect(() => new DockerFrameReader().read(Buffer.from("hello, world"))).toThrow("not in frames")
})

test("after a broken connection, bytes that were read are skipped, per stream", () => {
  const deduplicator = new ByteDeduplicator()
  const read = (stream: Piece["stream"], text: string): string =>
    deduplicator.newBytes({ stream, bytes: Buffer.from(text) }).toString()
  expect(read("stdout", "abc") + read("stderr", "xy")).toBe("abcxy")
  deduplicator.restart()
  expect([read("stderr", "x"), read("stdout", "ab"), read("stdout", "cd"), read("stderr", "yz")]).toEqual(["", "", "d", "z"])
  deduplicator.restart()
  expect([read("stdout", "abcde"), read("stderr", "xyz")]).toEqual(["e", ""])
})
