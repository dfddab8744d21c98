// Where the input and output files of attempts lie while they run: a folder per Ork process under the data folder. Those of dead
// processes are removed by the next one that starts.

import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { ownerAlive } from "./leftovers.ts"

export class AttemptFiles {
  readonly #parent: string
  readonly #own: string
  #shared: string | null = null

  constructor(dataDir: string, owner: string) {
    this.#parent = resolve(dataDir, "io")
    this.#own = join(this.#parent, owner)
  }

  start(): void {
    mkdirSync(this.#own, { recursive: true, mode: 0o700 })
    for (const name of readdirSync(this.#parent)) {
      if (ownerAlive(name) === false) rmSync(join(this.#parent, name), { recursive: true, force: true })
    }
  }

  stop(): void {
    rmSync(this.#own, { recursive: true, force: true })
    if (this.#shared !== null) rmSync(this.#shared, { recursive: true, force: true })
    this.#shared = null
  }

  /** The folder for an attempt's files. One that runs as another user needs a folder that all may enter, with files of its own in it. */
  folder(runAs: string | undefined): string {
    if (runAs === undefined) return this.#own
    if (this.#shared === null) {
      this.#shared = mkdtempSync(join(tmpdir(), "ork-io-"))
      chmodSync(this.#shared, 0o711)
    }
    return this.#shared
  }
}
