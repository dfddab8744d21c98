// Test helpers: a temporary database file, and other processes that use it.

import { type ChildProcess, spawn } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { DatabaseSync } from "node:sqlite"
import { onTestFinished } from "vitest"
import { NUMBERED } from "./connection/database.ts"

export const tempFile = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "ork-sqlite-"))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, "ork.db")
}

/**
 * Makes statements throw that Node before 22.16 cannot run. It returns rows as objects, which drop a column with a repeated name and
 * reorder numeric names, and it binds numbered parameters by name.
 */
export const rejectStatementsOldNodeCannotRun = (): void => {
  const prepare = DatabaseSync.prototype.prepare
  DatabaseSync.prototype.prepare = function (sql, ...rest) {
    const statement = prepare.call(this, sql, ...rest)
    const names = statement.columns().map(({ name }) => name)
    if (names.length > 1 && (new Set(names).size < names.length || names.some((name) => /^\d+$/.test(name)))) {
      throw new Error(`the columns ${names.join(", ")} need distinct names (AS): ${sql}`)
    }
    if (NUMBERED.test(sql) && /\?(?!\d)/.test(sql)) throw new Error(`it mixes numbered and plain parameters: ${sql}`)
    return statement
  }
}

export interface Other {
  process: ChildProcess
  /** Lines of its standard output. */
  lines: AsyncIterator<string>
  kill(): Promise<void>
}

/** Runs the text of a module in another process, with `openSqlite`, `path` and ids in scope. */
export const otherProcess = (path: string, code: string): Other => {
  const here = (file: string): string => JSON.stringify(new URL(file, import.meta.url).href)
  const prelude = `
    import { DatabaseSync } from "node:sqlite"
    import { openSqlite } from ${here("./sqlite.ts")}
    import { systemClock as clock, systemRandom as random } from ${here("../../engine/system.ts")}
    import { newHolderId, newRunId } from ${here("../../core/model/ids.ts")}
    import { workflow } from ${here("../../core/testing.ts")}
    const path = ${JSON.stringify(path)}
    const say = (line) => process.stdout.write(line + "\\n")`
  const child = spawn(
    process.execPath,
    ["--no-warnings", "--experimental-strip-types", "--input-type=module", "-e", `${prelude}\n${code}`],
    { stdio: ["ignore", "pipe", "inherit"] },
  )
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()))
  const kill = async (): Promise<void> => {
    child.kill("SIGKILL")
    await ended
  }
  onTestFinished(kill)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return { process: child, lines, kill }
}
