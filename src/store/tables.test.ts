import { readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"

const ROOT = join(import.meta.dirname, "../..")

const read = (path: string): string => readFileSync(join(ROOT, path), "utf8")

/** Returns the names that the section of a table explains. */
const explained = (table: string): string[] => {
  const section = read("docs/tables.md")
    .split(/^## /m)
    .find((text) => text.startsWith(`${table}\n`))!
  const names = [...section.matchAll(/^\| (`.*?`) +\|/gm)].map(([, cell]) => cell!)
  return names.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name!)).toSorted()
}

const columnsInPostgres = (table: string): string[] =>
  [...read("src/store/postgres/schema/schema.txt").matchAll(new RegExp(`^${table}: (?!WITH )([a-z_]+) `, "gm"))].map(
    ([, name]) => name!,
  )

const columnsInSqlite = (table: string): string[] => {
  const statements = read("src/store/sqlite/schema/schema.sql").split(";\n")
  const body = statements.find((statement) => statement.trimStart().startsWith(`CREATE TABLE ${table} (`))!
  return [...body.replaceAll(/, (?=\w+ (?:TEXT|INTEGER))/g, ",\n").matchAll(/^\s*"?([a-z_]+)"? /gm)].map(([, name]) => name!)
}

describe("docs/tables.md", () => {
  it.each(["tasks", "runs", "jobs"])("explains every column of %s", (table) => {
    const columns = new Set([...columnsInPostgres(table), ...columnsInSqlite(table)])
    expect(explained(table)).toEqual([...columns].toSorted())
  })
})
