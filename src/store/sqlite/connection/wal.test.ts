import { copyFileSync, statSync } from "node:fs"
import { expect, it, onTestFinished } from "vitest"
import { Database } from "./database.ts"
import { tempFile } from "../testing.ts"
import { sizeWal } from "./wal.ts"

const RESERVED = 1024 * (4096 + 24)

const setup = () => {
  const path = tempFile()
  const open = (file = path): Database => {
    const db = new Database(file)
    onTestFinished(() => db.close())
    db.configure()
    return db
  }
  const db = open()
  db.exec("CREATE TABLE t (x)")
  const grow = (): void => db.exec("BEGIN; INSERT INTO t SELECT randomblob(3000) FROM json_each('[1,2,3,4,5,6,7,8]'); COMMIT")
  const count = (each: Database): number => each.get<[number]>("SELECT count(*) FROM t")![0]
  return { path, open, db, grow, count, size: () => statSync(`${path}-wal`).size }
}

it("a large write-ahead log is truncated at every 256th commit", () => {
  const { db, grow, size } = setup()
  grow()
  sizeWal(db, 255, 1000)
  expect(size()).toBeGreaterThan(1000)
  sizeWal(db, 256, 1_000_000)
  expect(size()).toBeGreaterThan(1000)
  sizeWal(db, 256, 1000)
  expect(size()).toBe(0)
})

it("an active reader prevents the truncation, which the next attempt repeats", () => {
  const { open, db, grow, size } = setup()
  const reader = open()
  reader.exec("BEGIN")
  reader.get("SELECT count(*) FROM t")
  grow()
  sizeWal(db, 256, 1000)
  expect(size()).toBeGreaterThan(1000)
  reader.exec("COMMIT")
  sizeWal(db, 512, 1000)
  expect(size()).toBe(0)
})

it("the log gets its usual size at the eighth commit, and later ones do not make it grow", () => {
  const { db, grow, size } = setup()
  grow()
  sizeWal(db, 7)
  expect(size()).toBeLessThan(RESERVED)
  sizeWal(db, 8)
  expect(size()).toBe(RESERVED)
  for (let i = 0; i < 200; i++) grow()
  expect(size()).toBe(RESERVED)
})

it("the reserved space is no commit: a connection reads what was committed before and after, and so does the recovery of a crash", () => {
  const { path, open, db, grow, count } = setup()
  const readCopy = (): number => {
    const copy = tempFile()
    for (const suffix of ["", "-wal"]) copyFileSync(path + suffix, copy + suffix)
    return count(open(copy))
  }
  grow()
  sizeWal(db, 8)
  expect([count(open()), readCopy()]).toEqual([8, 8])
  grow()
  expect([count(open()), readCopy()]).toEqual([16, 16])
})

it("nothing is reserved while another connection writes, which the next attempt repeats", () => {
  const { open, db, size } = setup()
  const writer = open()
  writer.exec("BEGIN IMMEDIATE")
  const before = size()
  sizeWal(db, 8)
  expect(size()).toBe(before)
  writer.exec("COMMIT")
  sizeWal(db, 8 + 256)
  expect(size()).toBe(RESERVED)
})
