import { DatabaseSync } from "node:sqlite"
import { expect, test } from "vitest"
import { InvalidValue } from "../../contract/errors.ts"
import { asInvalidValue, Database, inTransaction } from "./database.ts"

test.each([
  { arrays: true, numbers: true },
  { arrays: true, numbers: false },
  { arrays: false, numbers: false },
])(
  "rows are arrays in the order of their columns, and values go where they belong, with a Node that can do %j",
  (abilities) => {
    const db = new Database(":memory:", { abilities })
    db.exec("CREATE TABLE t (z INTEGER, a TEXT)")
    expect(db.run("INSERT INTO t VALUES (?, ?), (?, ?)", 1, "x", 2, null)).toBe(2)
    expect(db.get("SELECT z, a, z + 1 FROM t WHERE z = ?", 1)).toEqual([1, "x", 2])
    expect(db.all("SELECT z, a FROM t ORDER BY z")).toEqual([
      [1, "x"],
      [2, null],
    ])
    expect(db.get("SELECT z FROM t WHERE z = 9")).toBeUndefined()
    expect(db.all("SELECT z, ?2 FROM t WHERE z <= ?1 AND ?2 = 'b'", 1, "b")).toEqual([[1, "b"]])
    expect(db.get("SELECT ?2 - ?1", 1, 3)).toEqual([2])
    expect(db.list('SELECT z, a AS "letter" FROM t ORDER BY z')).toEqual([
      { z: 1, letter: "x" },
      { z: 2, letter: null },
    ])
    expect(db.find("SELECT a FROM t WHERE z = ?1 AND ?2 = 'b'", 1, "b")).toStrictEqual({ a: "x" })
    expect(db.find("SELECT a FROM t WHERE z = 9")).toBeUndefined()
    expect(db.run("UPDATE t SET a = ?2 WHERE z = ?1", 2, "y")).toBe(1)
    db.close()
    expect(db.open).toBe(false)
  },
)

test("a transaction can be told from none without Node's help", () => {
  const db = new DatabaseSync(":memory:")
  expect(inTransaction(db)).toBe(false)
  db.exec("BEGIN; CREATE TABLE t (a)")
  expect(inTransaction(db)).toBe(true)
  db.exec("COMMIT")
  expect(inTransaction(db)).toBe(false)
  db.close()
})

test.each([
  ["a missing value", "INSERT INTO t VALUES (NULL)", true],
  ["a value of another type", "INSERT INTO t (rowid, a) VALUES ('x', 1)", true],
  ["a column that does not exist", "INSERT INTO t (b) VALUES (1)", false],
  ["a table that does not exist", "INSERT INTO u VALUES (1)", false],
])("an error because of %s says whether the value is the reason", (_, sql, isValue) => {
  const db = new Database(":memory:")
  db.exec("CREATE TABLE t (a NOT NULL)")
  const run = (): unknown => {
    try {
      return db.run(sql)
    } catch (error) {
      return asInvalidValue(error)
    }
  }
  expect(run() instanceof InvalidValue).toBe(isValue)
  db.close()
})
