import { describe, expect, it, onTestFinished } from "vitest"
import { StoreUnavailable } from "../../contract/errors.ts"
import { Database } from "./database.ts"
import { otherProcess, tempFile } from "../testing.ts"
import { Writer } from "./writer.ts"

const setup = (path = ":memory:") => {
  const db = new Database(path)
  db.configure()
  db.exec("CREATE TABLE IF NOT EXISTS t (x TEXT UNIQUE)")
  const log: string[] = []
  const writer = new Writer(db, {
    begun: () => void log.push("begin"),
    committing: () => void log.push("commit"),
    committed: () => void log.push("committed"),
    rolledBack: () => void log.push("undo"),
    schedule: setImmediate,
  })
  onTestFinished(async () => {
    await writer.close()
    db.close()
  })
  const put = (x: string): Promise<number> => writer.write(() => db.run("INSERT INTO t VALUES (?)", x))
  const all = (): string[] => db.all<[string]>("SELECT x FROM t ORDER BY x").map(([x]) => x)
  return { db, writer, log, put, all }
}

describe("group commit", () => {
  it("combines writes of one tick into one transaction, and resolves them after its commit", async () => {
    const { writer, log, put, all } = setup()
    const writes = ["a", "b", "c"].map((x) => put(x).then(() => log.push(x)))
    expect(all()).toEqual([])
    await Promise.all(writes)
    expect(log).toEqual(["begin", "commit", "committed", "a", "b", "c"])
    expect(writer.commits).toBe(1)
    expect(all()).toEqual(["a", "b", "c"])
  })

  it("writes at once with `writeNow`, together with earlier writes", async () => {
    const { db, writer, put, all } = setup()
    const before = put("a")
    const now = writer.writeNow(() => db.run("INSERT INTO t VALUES ('b')"))
    let ticked = false
    setImmediate(() => (ticked = true))
    await Promise.all([before, now])
    expect(ticked).toBe(false)
    expect(writer.commits).toBe(1)
    expect(all()).toEqual(["a", "b"])
  })

  it("undoes only the write that fails", async () => {
    const { writer, put, all } = setup()
    const results = await Promise.allSettled([put("a"), put("a"), put("b")])
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"])
    expect(all()).toEqual(["a", "b"])
    expect(writer.commits).toBe(1)
  })

  it("undoes every statement of a failed write", async () => {
    const { db, writer, log, put, all } = setup()
    const half = writer.write(() => {
      db.run("INSERT INTO t VALUES ('half')")
      throw new Error("in the middle")
    })
    await expect(half).rejects.toThrow("in the middle")
    const shared = writer.write(() => {
      db.run("INSERT INTO t VALUES ('half')")
      throw new Error("in the middle")
    })
    await Promise.allSettled([shared, put("whole")])
    expect(all()).toEqual(["whole"])
    expect(log).toEqual(["begin", "undo", "begin", "undo", "begin", "undo", "commit", "committed"])
  })

  it("finishes earlier writes when it is closed, and rejects later ones", async () => {
    const { writer, put, all } = setup()
    const last = put("a")
    await writer.close()
    await last
    expect(all()).toEqual(["a"])
    await expect(put("b")).rejects.toThrow(StoreUnavailable)
  })
})

describe("a full disk", () => {
  it("is reported as StoreUnavailable with its reason; nothing is half-written, and later writes succeed", async () => {
    const { db, writer, put, all } = setup(tempFile())
    await put("before")
    const pages = db.get<[number]>("PRAGMA page_count")![0]
    db.exec(`PRAGMA max_page_count = ${pages + 2}`)
    const big = writer.write(() => {
      for (let i = 0; i < 100; i++) db.run("INSERT INTO t VALUES (?)", `${i}`.padStart(4000, "x"))
    })
    const other = put("other")
    await expect(big).rejects.toThrow(/is not available: database or disk is full/)
    await expect(big).rejects.toThrow(StoreUnavailable)
    // The other write was acknowledged if and only if it was committed.
    const isAcknowledged = await other.then(
      () => true,
      () => false,
    )
    expect(all()).toEqual(isAcknowledged ? ["before", "other"] : ["before"])
    db.exec("PRAGMA max_page_count = 100000")
    await put("after")
    expect(all()).toContain("after")
  })
})

describe("another process that writes to the same file", () => {
  it("delays writes without an error and without blocking the event loop", async () => {
    const path = tempFile()
    const { writer, put, all } = setup(path)
    const other = otherProcess(
      path,
      `const db = new DatabaseSync(path)
       db.exec("BEGIN IMMEDIATE")
       say("locked")
       process.on("SIGTERM", () => { db.exec("COMMIT"); process.exit() })
       setInterval(() => {}, 1000)`,
    )
    await other.lines.next()
    let isResolved = false
    const writes = ["a", "b", "c"].map((x) => put(x).then(() => (isResolved = true)))
    // The event loop continues while the other process has the lock; later writes join the same transaction.
    for (let ticks = 0; ticks < 20; ticks++) await new Promise((resolve) => setImmediate(resolve))
    writes.push(put("d").then(() => true))
    expect(isResolved).toBe(false)
    other.process.kill("SIGTERM")
    await Promise.all(writes)
    expect(all()).toEqual(["a", "b", "c", "d"])
    expect(writer.commits).toBe(1)
  })

  it("can write continuously without making writes fail", async () => {
    const path = tempFile()
    const { put, all } = setup(path)
    const other = otherProcess(
      path,
      `const db = new DatabaseSync(path, { timeout: 60000 })
       say("ready")
       for (let i = 0; ; i++) {
         db.exec("BEGIN IMMEDIATE")
         for (let k = 0; k < 20; k++) db.prepare("INSERT INTO t VALUES (?)").run("other " + i + "." + k)
         db.exec("COMMIT")
         if (i === 100) { say("done"); break }
       }`,
    )
    await other.lines.next()
    for (let i = 0; i < 100; i++) await put(`mine ${i}`)
    await other.lines.next()
    expect(all().filter((x) => x.startsWith("mine"))).toHaveLength(100)
    expect(all().filter((x) => x.startsWith("other"))).toHaveLength(101 * 20)
  })
})
