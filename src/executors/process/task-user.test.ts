import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { FolderOwner } from "./task-user.ts"

const NOBODY = { name: "nobody", uid: 65_534, gid: 65_534 }

test.runIf(process.geteuid?.() === 0)("the folder of a run is given to the user of tasks, also after it was removed", () => {
  const dataDir = mkdtempSync(join(tmpdir(), "ork-owner-"))
  onTestFinished(() => rmSync(dataDir, { recursive: true }))
  const folder = join(dataDir, "work/run-1")
  const owner = new FolderOwner(dataDir, NOBODY)
  for (let round = 0; round < 2; round++) {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, "file"), "")
    owner.give(folder)
    expect([folder, join(folder, "file")].map((path) => statSync(path).uid)).toEqual([NOBODY.uid, NOBODY.uid])
    rmSync(folder, { recursive: true })
  }
  expect(statSync(join(dataDir, "work")).uid).toBe(0)
})
