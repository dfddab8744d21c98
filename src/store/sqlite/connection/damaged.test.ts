import { closeSync, openSync, readFileSync, truncateSync, writeFileSync, writeSync } from "node:fs"
import { expect, test } from "vitest"
import { systemClock as clock, systemRandom as random } from "../../../engine/system.ts"
import { StoreUnavailable } from "../../contract/errors.ts"
import { openSqlite } from "../sqlite.ts"
import { tempFile } from "../testing.ts"

const PAGE = 4096

/** Returns the file of a database with some pages. */
const written = async (): Promise<string> => {
  const path = tempFile()
  const store = await openSqlite({ path, clock, random })
  await store.migrate()
  await store.getSecret()
  await store.close()
  return path
}

/** Starts a server on the file. */
const start = async (path: string): Promise<boolean> => {
  const store = await openSqlite({ path, clock, random })
  try {
    await store.migrate()
    return await store.becomeServer()
  } finally {
    await store.close()
  }
}

const overwrite = (path: string, offset: number): void => {
  const file = openSync(path, "r+")
  writeSync(file, Buffer.alloc(PAGE, 0x5a), 0, PAGE, offset)
  closeSync(file)
}

test.each<[string, (path: string) => void]>([
  ["is no database", (path) => writeFileSync(path, "hello\n".repeat(1000))],
  ["was cut off", (path) => truncateSync(path, 10 * PAGE)],
  ["has an overwritten page", (path) => overwrite(path, Math.floor(readFileSync(path).length / PAGE / 2) * PAGE)],
])("a server is not started on a file that %s, and the error says what to do", async (_, damage) => {
  const path = await written()
  expect(await start(path)).toBe(true)
  damage(path)
  const error: unknown = await start(path).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(StoreUnavailable)
  expect((error as Error).message).toMatch(
    / is not available: its file is damaged \(.+\); stop what uses it, .*`ork restore BACKUP`/,
  )
})
