// Paths of the input and output files of running attempts: a folder per executor in the data folder, and one in memory for
// small inputs, because creating a file on disk may wait for writes of the database. The next process that starts removes
// folders of dead processes.

import { randomBytes } from "node:crypto"
import { chmodSync, mkdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { createOwnedFolder, ownedPrefix, removeStaleFolders } from "../../objects/owned-folder.ts"

const MEMORY = "/dev/shm"
/** Largest input that is kept in memory. All running tasks together must fit into 64 MB, the default in containers. */
const SMALL_BYTES = 32_768

export interface AttemptPaths {
  folder: string
  input: string
  output: string
}

export class AttemptFiles {
  readonly #parent: string
  readonly #disk: string
  readonly #name: string
  #memory: string | null = null
  #shared: string | null = null

  constructor(dataDir: string) {
    this.#parent = resolve(dataDir, "io")
    this.#name = ownedPrefix("io") + randomBytes(4).toString("hex")
    this.#disk = join(this.#parent, this.#name)
  }

  start(): void {
    mkdirSync(this.#disk, { recursive: true, mode: 0o700 })
    removeStaleFolders(this.#parent)
    removeStaleFolders(tmpdir())
    try {
      mkdirSync(join(MEMORY, this.#name), { mode: 0o700 })
      this.#memory = join(MEMORY, this.#name)
      removeStaleFolders(MEMORY)
    } catch {
      this.#memory = null
    }
  }

  stop(): void {
    for (const folder of [this.#disk, this.#memory, this.#shared]) {
      if (folder !== null) rmSync(folder, { recursive: true, force: true })
    }
    this.#memory = this.#shared = null
  }

  paths(attemptId: string, inputLength: number, runAs: string | undefined): AttemptPaths {
    const folder = runAs === undefined ? this.#disk : this.#sharedFolder()
    const inputFolder = runAs === undefined && inputLength <= SMALL_BYTES ? (this.#memory ?? folder) : folder
    return { folder, input: join(inputFolder, `${attemptId}.input.json`), output: join(folder, `${attemptId}.output.json`) }
  }

  /** Returns the folder for tasks that run as other users, which everybody may enter but not list. */
  #sharedFolder(): string {
    if (this.#shared === null) {
      this.#shared = createOwnedFolder("io")
      chmodSync(this.#shared, 0o711)
    }
    return this.#shared
  }
}
