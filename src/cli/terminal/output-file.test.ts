import { mkdtempSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { InputError } from "./errors.ts"
import { writeOutputFile } from "./output-file.ts"

test("a file is written with its rights; a folder in its place, or a missing one, is an error that says what to do", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "ork-output-"))
  onTestFinished(() => rmSync(cwd, { recursive: true, force: true }))
  await writeOutputFile(cwd, "run.json", "etl-3.run.json", "{}", { mode: 0o600 })
  expect(statSync(join(cwd, "run.json")).mode & 0o777).toBe(0o600)
  await expect(writeOutputFile(cwd, ".", "etl-3.run.json", "{}")).rejects.toThrow(
    new InputError(". is a folder; name a file in it: -o etl-3.run.json"),
  )
  await expect(writeOutputFile(cwd, "new/", "etl-3.run.json", "{}")).rejects.toThrow(
    new InputError("new/ is a folder; name a file in it: -o new/etl-3.run.json"),
  )
  await expect(writeOutputFile(cwd, "new/run.json", "etl-3.run.json", "{}")).rejects.toThrow(
    new InputError("new/run.json cannot be written, because its folder does not exist; create the folder first"),
  )
})
