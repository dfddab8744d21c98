// Remembers in a folder which parts of a cluster were used (namespaces, jobs of Cloud Run), so that a sweep after a restart finds the work
// of earlier processes. Only helps to clean up: a folder that cannot be written stops no task.

import { mkdirSync, readdirSync, rmdirSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const SUFFIX = ".used"

export class UsedNames {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  names(): string[] {
    return this.#quietly(() => readdirSync(this.#folder), []).flatMap((file) =>
      file.endsWith(SUFFIX) ? [decodeURIComponent(file.slice(0, -SUFFIX.length))] : [],
    )
  }

  add(name: string): void {
    this.#quietly(() => {
      mkdirSync(this.#folder, { recursive: true, mode: 0o700 })
      writeFileSync(this.#path(name), "")
    }, undefined)
  }

  /** Removes a name, and the folder with the last one. */
  remove(name: string): void {
    this.#quietly(() => {
      rmSync(this.#path(name), { force: true })
      rmdirSync(this.#folder)
    }, undefined)
  }

  #path(name: string): string {
    return join(this.#folder, `${encodeURIComponent(name)}${SUFFIX}`)
  }

  #quietly<T>(action: () => T, otherwise: T): T {
    try {
      return action()
    } catch {
      return otherwise
    }
  }
}
