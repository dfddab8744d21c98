// Runs the built command as a user without rights, for tests that run as root.

import { execFileSync, spawnSync } from "node:child_process"
import { chmodSync } from "node:fs"
import { ORK, temporaryFolder } from "./ork.ts"

export const isRoot = process.geteuid?.() === 0

const NOBODY = 65_534

/** Command line that starts a program as the user `nobody`. */
export const asNobody = ["setpriv", `--reuid=${NOBODY}`, `--regid=${NOBODY}`, "--clear-groups"]

/** True if `nobody` can start the built command: the checkout must be readable. */
export const nobodyCanRun = (): boolean =>
  isRoot &&
  spawnSync(asNobody[0]!, [...asNobody.slice(1), ORK, "--version"], { cwd: "/", env: { PATH: process.env.PATH } }).status === 0

/** Creates a folder that belongs to `nobody`. */
export const nobodysFolder = (): string => {
  const folder = temporaryFolder()
  chmodSync(folder, 0o755)
  execFileSync("chown", [`${NOBODY}:${NOBODY}`, folder])
  return folder
}

/** Paths below a folder that `nobody` can read. */
export const readableByNobody = (folder: string): string[] =>
  spawnSync(asNobody[0]!, [...asNobody.slice(1), "find", folder, "-readable"], { encoding: "utf8", cwd: "/" })
    .stdout.split("\n")
    .filter((path) => path !== "")
