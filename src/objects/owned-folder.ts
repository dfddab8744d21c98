// Temporary folders with the identity of their process in the name (`ork-KIND-OWNER.RANDOM`). The next process that starts removes
// the folders of killed ones.

import { lstatSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { currentOwner, ownerAlive } from "./owner.ts"

/** `io`: files of attempts. `log`: logs that are still to be uploaded. `exec`, `replay`: temporary files of `ork exec` and `ork replay`. */
type Kind = "io" | "log" | "exec" | "replay"

const NAME = /^ork-(?:io|log|exec|replay)-([\d-]+)\./

let owner: string | null = null

/** Returns the first part of a folder name; the caller appends a unique suffix. */
export const ownedPrefix = (kind: Kind): string => `ork-${kind}-${(owner ??= currentOwner())}.`

/** Creates a folder that only this user can read. */
export const createOwnedFolder = (kind: Kind): string => mkdtempSync(join(tmpdir(), ownedPrefix(kind)))

/** Removes folders of dead processes of this user. */
export const removeStaleFolders = (parent: string): void => {
  for (const name of readdirSync(parent)) {
    const creator = NAME.exec(name)?.[1]
    if (creator === undefined || ownerAlive(creator) !== false) continue
    const path = join(parent, name)
    try {
      if (lstatSync(path).uid === process.geteuid?.()) rmSync(path, { recursive: true, force: true })
    } catch {
      // Another process is removing it.
    }
  }
}
