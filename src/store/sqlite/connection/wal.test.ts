import { statSync } from "node:fs"
import { expect, it, onTestFinished } from "vitest"
import { Database } from "./database.ts"
import { tempFile } from "../testing.ts"
import { boundWal } from "./wal.ts"

const setup = () => {
  const path = tempFile()
  const open = (): Database => {
    const db = new Database(path)
    onTestFinished(() => db.close())
    db.configure()
    return db
  }
  const db = open()
  db.exec("CREATE TABLE t (x)")
  const grow = (): void => db.exec("BEGIN; INSERT INTO t SELECT randomblob(3000) FROM json_each('[1,2,3,4,5,6,7,8]'); COMMIT")
  return { open, db, grow, size: () => statSync(`${path}-wal`).size }
}

it("a large write-ahead log is truncated at every 256th commit", () => {
  const { db, grow, size } = setup()
  grow()
  boundWal(db, 255, 1000)
  expect(size()).toBeGreaterThan(1000)
  boundWal(db, 256, 1_000_000)
  expect(size()).toBeGreaterThan(1000)
  boundWal(db, 256, 1000)
  expect(size()).toBe(0)
})

it("an active reader prevents the truncation, which the next attempt repeats", () => {
  const { open, db, grow, size } = setup()
  const reader = open()
  reader.exec("BEGIN")
  reader.get("SELECT count(*) FROM t")
  grow()
  boundWal(db, 256, 1000)
  expect(size()).toBeGreaterThan(1000)
  reader.exec("COMMIT")
  boundWal(db, 512, 1000)
  expect(size()).toBe(0)
})
