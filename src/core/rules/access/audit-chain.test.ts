import { expect, test } from "vitest"
import { auditHash, brokenEntry, type ChainedEntry } from "./audit-chain.ts"

const chain = (count: number, of: { subject?: string; request?: string } = {}): ChainedEntry[] => {
  const entries: ChainedEntry[] = []
  for (let seq = 1; seq <= count; seq++) {
    const fields = {
      at: "2026-01-01",
      keyId: null,
      actor: "admin",
      address: null,
      action: "a",
      target: String(seq),
      result: "ok",
      details: null,
      subject: of.subject ?? null,
      request: of.request ?? null,
    }
    entries.push({ ...fields, seq, hash: auditHash(entries.at(-1)?.hash ?? null, fields) })
  }
  return entries
}

test("an untouched chain is whole, also when it is read in pages or its oldest entries have expired", () => {
  const entries = chain(6)
  expect(brokenEntry(null, entries)).toBeNull()
  expect(brokenEntry(null, entries.slice(0, 3)) ?? brokenEntry(entries[2]!, entries.slice(3))).toBeNull()
  expect(brokenEntry(null, entries.slice(2))).toBeNull()
})

test("a changed, removed or inserted entry breaks the chain", () => {
  const entries = chain(6)
  expect(brokenEntry(null, entries.toSpliced(3, 1, { ...entries[3]!, actor: "nobody" }))).toBe(4)
  expect(brokenEntry(null, entries.toSpliced(3, 1))).toBe(5)
  expect(brokenEntry(null, entries.toSpliced(3, 0, { ...entries[3]!, seq: 99 }))).toBe(4)
  expect(brokenEntry(null, entries.toSpliced(3, 1, { ...entries[3]!, hash: null }))).toBe(4)
})

test("the chain covers the user and the request, and does not depend on them in entries of earlier versions", () => {
  const [first] = chain(1)
  const { subject: _subject, request: _request, ...earlier } = first!
  expect(auditHash(null, earlier as ChainedEntry)).toBe(first!.hash)
  const entries = chain(2, { subject: "user-1", request: "r" })
  expect(brokenEntry(null, entries)).toBeNull()
  expect(brokenEntry(null, [entries[0]!, { ...entries[1]!, subject: "user-2" }])).toBe(2)
  expect(brokenEntry(null, [entries[0]!, { ...entries[1]!, request: null }])).toBe(2)
})

test("entries of a version without the chain come before it", () => {
  expect(brokenEntry(null, [{ ...chain(1)[0]!, hash: null, seq: 0 }, ...chain(3)])).toBeNull()
})
