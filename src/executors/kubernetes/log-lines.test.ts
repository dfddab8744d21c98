import fc from "fast-check"
import { expect, test } from "vitest"
import { compareStamps, LogLines } from "./log-lines.ts"

/** A log as a server keeps it: several lines may have one stamp. */
const entries = fc
  .array(fc.record({ step: fc.constantFrom(0, 0, 1, 400_000_000, 1_000_000_000), text: fc.string({ maxLength: 12 }) }), {
    maxLength: 30,
  })
  .map((all) => {
    let nanos = 0n
    return all.map(({ step, text }) => {
      nanos += BigInt(step)
      const seconds = new Date(1_700_000_000_000 + Number(nanos / 1_000_000_000n) * 1000).toISOString().slice(0, 19)
      return { stamp: `${seconds}.${String(nanos % 1_000_000_000n).padStart(9, "0")}Z`, text: text.replaceAll("\n", "") }
    })
  })

/** What the server sends from a second on. */
const served = (log: { stamp: string; text: string }[], since: string | null): Buffer =>
  Buffer.from(
    log
      .filter(({ stamp }) => since === null || stamp.slice(0, 19) >= since.slice(0, 19))
      .map(({ stamp, text }) => `${stamp} ${text}\n`)
      .join(""),
  )

test("however often a log breaks off, and wherever, each line comes once and in order", () => {
  fc.assert(
    fc.property(
      entries,
      fc.array(fc.nat({ max: 400 }), { maxLength: 8 }),
      fc.integer({ min: 1, max: 40 }),
      (log, breaks, size) => {
        const lines = new LogLines()
        const out: Buffer[] = []
        for (const most of [...breaks, Number.POSITIVE_INFINITY]) {
          lines.resume()
          const bytes = served(log, lines.since).subarray(0, most)
          for (let at = 0; at < bytes.length; at += size) out.push(lines.read(bytes.subarray(at, at + size)))
        }
        expect(Buffer.concat(out).toString()).toBe(log.map(({ text }) => `${text}\n`).join(""))
      },
    ),
    { numRuns: 500 },
  )
})

test("stamps are compared by their time, whatever their zone and length", () => {
  expect(compareStamps("2026-01-02T03:04:05.1Z", "2026-01-02T03:04:05.12Z")).toBeLessThan(0)
  expect(compareStamps("2026-01-02T05:04:06+02:00", "2026-01-02T03:04:05.999Z")).toBeGreaterThan(0)
  expect(compareStamps("2026-01-02T05:04:05.5+02:00", "2026-01-02T03:04:05.500000000Z")).toBe(0)
})
