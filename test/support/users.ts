// The built command for users without rights, for tests that run as root.

import { execFileSync, spawnSync } from "node:child_process"
import { chmodSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll } from "vitest"
import { ORK, temporaryFolder } from "./ork.ts"
import { AS_NOBODY, NOBODY, programForNobody } from "./program-for-nobody.ts"

export const isRoot = process.geteuid?.() === 0

/** Returns the path of the built command, or of a copy if other users cannot enter the checkout. A copy is removed after the test file. */
export const orkForEveryUser = (): string =>
  isRoot
    ? programForNobody(() => {
        const folder = mkdtempSync(join(tmpdir(), "ork-test-program-"))
        afterAll(() => rmSync(folder, { recursive: true, force: true }))
        return folder
      })
    : ORK

/** Creates a folder that belongs to `nobody`. */
export const nobodysFolder = (): string => {
  const folder = temporaryFolder()
  chmodSync(folder, 0o755)
  execFileSync("chown", [`${NOBODY}:${NOBODY}`, folder])
  return folder
}

/** Paths below a folder that `nobody` can read. */
export const readableByNobody = (folder: string): string[] =>
  spawnSync(AS_NOBODY[0]!, [...AS_NOBODY.slice(1), "find", folder, "-readable"], { encoding: "utf8", cwd: "/" })
    .stdout.split("\n")
    .filter((path) => path !== "")
