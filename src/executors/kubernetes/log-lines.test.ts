import fc from "fast-check"
import { expect, test } from "vitest"
import { compareStamps, LogLines } from "./log-lines.ts"

interface Entry {
  stamp: string
  text: string
  /** True when its line continues in the next entry. */
  partial: boolean
}

const stampOf = (nanos: bigint): string => {
  const seconds = new Date(1_700_000_000_000 + Number(nanos / 1_000_000_000n) * 1000).toISOString().slice(0, 19)
  return `${seconds}.${String(nanos % 1_000_000_000n).padStart(9, "0")}Z`
}

/**
 * Generates a log as a node keeps it: entries may share a timestamp, timestamps of the two streams may be out of order, long
 * lines are split.
 */
const entries = fc
  .array(
    fc.record({
      step: fc.constantFrom(0, 0, 1, 400_000_000, 1_000_000_000),
      early: fc.constantFrom(0, 0, 0, 1, 2_000),
      text: fc.string({ maxLength: 12 }),
      partial: fc.constantFrom(false, false, false, true),
    }),
    { maxLength: 30 },
  )
  .map((all) => {
    let nanos = 5_000_000_000n
    return all.map(({ step, early, text, partial }, i): Entry => {
      nanos += BigInt(step)
      // Pieces of one line are in order, because they come from one stream.
      const whole = !partial && all[i - 1]?.partial !== true
      // No runtime writes an empty piece.
      return {
        stamp: stampOf(nanos - BigInt(whole ? early : 0)),
        text: `${partial ? "-" : ""}${text.replaceAll("\n", "")}`,
        partial,
      }
    })
  })

/** Returns what a kubelet sends: entries since a second, with timestamps only at the start of lines. */
const served = (log: Entry[], since: string | null): Buffer => {
  let begins = true
  let out = ""
  for (const { stamp, text, partial } of log) {
    if (since === null || compareStamps(stamp, since) >= 0) out += `${begins ? `${stamp} ` : ""}${text}${partial ? "" : "\n"}`
    begins = !partial
  }
  return Buffer.from(out)
}

const textOf = (log: Entry[]): string => log.map(({ text, partial }) => `${text}${partial ? "" : "\n"}`).join("")

const readAll = (log: Entry[], breaks: number[], size: number, after = ""): string => {
  const lines = new LogLines()
  const out: Buffer[] = []
  for (const most of [...breaks, Number.POSITIVE_INFINITY]) {
    lines.resume()
    const bytes = Buffer.concat([served(log, lines.since).subarray(0, most), Buffer.from(after)])
    for (let at = 0; at < bytes.length; at += size) out.push(lines.read(bytes.subarray(at, at + size)))
  }
  return Buffer.concat(out).toString()
}

test("each line is read once and in order, wherever and however often connections break", () => {
  fc.assert(
    fc.property(
      entries,
      fc.array(fc.nat({ max: 400 }), { maxLength: 8 }),
      fc.integer({ min: 1, max: 40 }),
      (log, breaks, size) => {
        expect(readAll(log, breaks, size)).toBe(textOf(log))
      },
    ),
    { numRuns: 500 },
  )
})

const line = (stamp: string, text: string, partial = false): Entry => ({ stamp: `2026-01-01T00:00:${stamp}Z`, text, partial })

test("a long line whose first piece is older than the requested time is not repeated", () => {
  const log = [line("08.900000000", "long ", true), line("09.100000000", "line"), line("10.200000000", "next")]
  const bytes = served(log, null).length
  expect(readAll(log, [bytes], 7)).toBe("long line\nnext\n")
})

test("a line of stderr with an older timestamp than the line of stdout before it is neither lost nor repeated", () => {
  const log = [line("10.200000002", "out"), line("10.200000001", "err"), line("10.200000001", "err again")]
  for (let most = 0; most <= served(log, null).length; most++) expect(readAll(log, [most], 64)).toBe("out\nerr\nerr again\n")
})

test("a message of the kubelet after the log is no line of the log", () => {
  const log = [line("10.000000000", "one")]
  const message = "failed to create fsnotify watcher: too many open files"
  expect(readAll(log, [1000, 1000], 16, message)).toBe("one\n")
})

test("a line that a rotation truncated is ended, and the log continues with the next one", () => {
  const lines = new LogLines()
  lines.resume()
  const before = lines.read(Buffer.from("2026-01-01T00:00:01.000000000Z one\n2026-01-01T00:00:02.000000000Z tw"))
  lines.resume()
  const after = lines.read(Buffer.from("2026-01-01T00:00:05.000000000Z five\n"))
  expect(Buffer.concat([before, after]).toString()).toBe("one\ntw\nfive\n")
})

test("a log is requested since the whole second before the last line", () => {
  const lines = new LogLines()
  expect(lines.since).toBeNull()
  lines.resume()
  lines.read(Buffer.from("2026-01-01T00:00:01.900000000+02:00 one\n"))
  expect(lines.since).toBe("2025-12-31T22:00:00Z")
})

test("timestamps of any zone and length are compared by their time", () => {
  expect(compareStamps("2026-01-02T03:04:05.1Z", "2026-01-02T03:04:05.12Z")).toBeLessThan(0)
  expect(compareStamps("2026-01-02T05:04:06+02:00", "2026-01-02T03:04:05.999Z")).toBeGreaterThan(0)
  expect(compareStamps("2026-01-02T05:04:05.5+02:00", "2026-01-02T03:04:05.500000000Z")).toBe(0)
})
