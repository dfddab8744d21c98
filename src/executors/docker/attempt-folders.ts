// The folders of this process's attempts, each mounted into its container. Their parent `owners/OWNER` is touched while the
// owner is alive, for an Ork in another container, which cannot see its process.

import { randomBytes } from "node:crypto"
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs"
import { chmod, mkdir, rm, writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import type { Clock } from "../../core/model/ports.ts"
import { currentOwner, ownerAlive } from "../../objects/owner.ts"
import type { Assignment } from "../executor.ts"
import { inputText } from "../input.ts"
import { INPUT_FILE, OUTPUT_FILE } from "./container.ts"

const TOUCH_MS = 10_000
/** Time without a touch after which an owner whose process is not visible counts as dead. */
export const SILENT_MS = 40_000

export class AttemptFolders {
  readonly owner = currentOwner()
  /** Id of the data folder, independent of where it is mounted. */
  readonly data: string
  readonly #owners: string
  readonly #own: string
  readonly #clock: Clock
  #cancelTouch: (() => void) | null = null

  constructor(dataDir: string, clock: Clock) {
    const root = resolve(dataDir, "docker")
    this.#owners = join(root, "owners")
    this.#own = join(this.#owners, this.owner)
    this.#clock = clock
    mkdirSync(this.#own, { recursive: true, mode: 0o700 })
    chmodSync(root, 0o700)
    this.data = dataId(join(root, "id"))
    this.#touch()
  }

  stop(): void {
    this.#cancelTouch?.()
    rmSync(this.#own, { recursive: true, force: true })
    try {
      rmdirSync(this.#owners)
    } catch {
      // Folders of other owners are left.
    }
  }

  /**
   * Creates the folder of an attempt, writable for every user because the container may run as any; its parents are private.
   */
  async create(assignment: Assignment): Promise<{ folder: string; output: string }> {
    const folder = join(this.#own, assignment.attemptId)
    await mkdir(folder, { recursive: true })
    await chmod(folder, 0o777)
    await writeFile(join(folder, INPUT_FILE), inputText(assignment), { mode: 0o644 })
    return { folder, output: join(folder, OUTPUT_FILE) }
  }

  async remove(attemptId: string): Promise<void> {
    // Files that the container created as root may not be removable.
    await rm(join(this.#own, attemptId), { recursive: true, force: true }).catch(() => {})
  }

  /** Returns whether the owner in a container's labels is dead; null when that is not known yet. */
  isDead(owner: string, data: string): boolean | null {
    if (owner === this.owner) return false
    const alive = ownerAlive(owner)
    if (alive !== null) return !alive
    if (data !== this.data) return false
    const touched = statSync(join(this.#owners, owner), { throwIfNoEntry: false })?.mtimeMs
    return touched === undefined || Date.now() - touched > SILENT_MS ? true : null
  }

  /** Removes the folders of dead owners; must be called after the removal of their containers. */
  removeDead(): void {
    for (const owner of readdirSync(this.#owners)) {
      if (this.isDead(owner, this.data) === true) rmSync(join(this.#owners, owner), { recursive: true, force: true })
    }
  }

  #touch(): void {
    try {
      const now = new Date()
      utimesSync(this.#own, now, now)
    } catch {
      // Somebody removed the folder.
    }
    this.#cancelTouch = this.#clock.after(TOUCH_MS, () => this.#touch())
  }
}

const dataId = (path: string): string => {
  try {
    writeFileSync(path, randomBytes(8).toString("hex"), { flag: "wx" })
  } catch {
    // The id exists.
  }
  return readFileSync(path, "utf8")
}
