// For the tests of this folder: a temporary database file, and other processes on it.

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
 * From now on a statement throws that an older Node 22 could not run: it gives rows as objects, which lose one of two columns with the same
 * name and put numbers first, and binds parameters with numbers by name, which those without do not have.
 */
export const refuseWhatOldNodeCannot = (): void => {
  const prepare = DatabaseSync.prototype.prepare
  DatabaseSync.prototype.prepare = function (sql, ...rest) {
    const statement = prepare.call(this, sql, ...rest)
    const names = statement.columns().map(({ name }) => name)
    if (names.length > 1 && (new Set(names).size < names.length || names.some((name) => /^\d+$/.test(name)))) {
      throw new Error(`the columns ${names.join(", ")} need names of their own (AS): ${sql}`)
    }
    if (NUMBERED.test(sql) && /\?(?!\d)/.test(sql)) throw new Error(`its parameters have numbers and have none: ${sql}`)
    return statement
  }
}

export interface Other {
  process: ChildProcess
  /** Lines that it prints, one by one. */
  lines: AsyncIterator<string>
  kill(): Promise<void>
}

/** Runs a module's text in a process of its own; `openSqlite`, `path` and `setup` of the suite's world are at hand. */
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
