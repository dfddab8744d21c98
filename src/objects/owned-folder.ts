// Temporary folders that carry the name of the process that made them (`ork-KIND-OWNER.RANDOM`): what a killed one left is removed by the
// next that starts.

import { lstatSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { currentOwner, ownerAlive } from "./owner.ts"

/** Files of attempts; logs on their way to a store elsewhere; what `ork exec` works in. */
type Kind = "io" | "log" | "exec"

const NAME = /^ork-(?:io|log|exec)-([\d-]+)\./

let owner: string | null = null

/** The beginning of a name; what follows must make it one of its kind. */
export const ownedPrefix = (kind: Kind): string => `ork-${kind}-${(owner ??= currentOwner())}.`

/** Made, for this user alone. */
export const createOwnedFolder = (kind: Kind): string => mkdtempSync(join(tmpdir(), ownedPrefix(kind)))

/** Removes folders of dead processes. Those of other users are theirs to remove. */
export const removeStaleFolders = (parent: string): void => {
  for (const name of readdirSync(parent)) {
    const maker = NAME.exec(name)?.[1]
    if (maker === undefined || ownerAlive(maker) !== false) continue
    const path = join(parent, name)
    try {
      if (lstatSync(path).uid === process.geteuid?.()) rmSync(path, { recursive: true, force: true })
    } catch {
      // Somebody else removes it.
    }
  }
}
