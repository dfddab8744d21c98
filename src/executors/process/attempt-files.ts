// Where the input and output files of attempts lie while they run: a folder per executor under the data folder, and one in memory for
// small inputs, which every task has (a file made on disk waits for whatever the database is writing there). Folders of dead
// processes are removed by the next one that starts.

import { randomBytes } from "node:crypto"
import { chmodSync, mkdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { createOwnedFolder, ownedPrefix, removeStaleFolders } from "../../objects/owned-folder.ts"

const MEMORY = "/dev/shm"
/** Of an input that is kept in memory. Times the tasks at once, it must fit the 64 MB that a container has there. */
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

  /** For tasks that run as other users: a folder that all may enter, with files of their own in it. */
  #sharedFolder(): string {
    if (this.#shared === null) {
      this.#shared = createOwnedFolder("io")
      chmodSync(this.#shared, 0o711)
    }
    return this.#shared
  }
}
