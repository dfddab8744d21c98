// Removes folders of this machine that belong to runs, jobs and bundles which another server has removed: a server that removes them from
// the database removes the folders of its own machine only.

import { readdir, rm, stat } from "node:fs/promises"
import { join } from "node:path"
import { isUuid, type RunId } from "../../core/model/ids.ts"
import type { Clock } from "../../core/model/ports.ts"
import { bundleFolder } from "../../objects/bundles/bundles.ts"
import type { Catalog } from "../../store/contract/catalog.ts"
import type { JobStore } from "../../store/contract/jobs.ts"
import type { Store } from "../../store/contract/store.ts"
import { runFolder } from "../attempts/folders.ts"
import { upstreamFolder } from "../attempts/upstream-files.ts"

/** A run whose folder was just created may not be visible yet, and a bundle is unpacked before a version names it. */
const MIN_AGE_MS = 86_400_000
/** Folders that one call asks the store about. The next call continues with the following ones. */
const BATCH = 500

export interface LeftFoldersOptions {
  store: Pick<Store, "getRun"> & Pick<JobStore, "getJob"> & Pick<Catalog, "bundlesInUse">
  dataDir: string
  clock: Clock
}

export class LeftFolders {
  readonly #options: LeftFoldersOptions
  /** The last run or job that was checked; empty: none. */
  #last = ""

  constructor(options: LeftFoldersOptions) {
    this.#options = options
  }

  /** Checks the next runs and jobs that have folders here, and all bundles. Returns the number of those whose folders were removed. */
  async removeSome(): Promise<number> {
    return (await this.#removeOfRuns()) + (await this.#removeOfBundles())
  }

  async #removeOfRuns(): Promise<number> {
    const { store, dataDir } = this.#options
    const names = await Promise.all([namesIn(join(dataDir, "work")), namesIn(join(dataDir, "upstream"))])
    const ids = [...new Set(names.flat())].filter((name) => isUuid(name) && name > this.#last).toSorted()
    const batch = ids.slice(0, BATCH)
    this.#last = batch.length < ids.length ? batch.at(-1)! : ""
    let removed = 0
    for (const id of batch) {
      const folders = [runFolder(dataDir, id), upstreamFolder(dataDir, id)]
      if (!(await this.#areOld(folders))) continue
      if ((await store.getRun(id as RunId)) !== null || (await store.getJob(id)) !== null) continue
      for (const folder of folders) await rm(folder, { recursive: true, force: true })
      removed += 1
    }
    return removed
  }

  async #removeOfBundles(): Promise<number> {
    const { store, dataDir } = this.#options
    const hashes = (await namesIn(join(dataDir, "bundles"))).filter((name) => /^[0-9a-f]{64}$/.test(name))
    const used = hashes.length === 0 ? [] : await store.bundlesInUse(hashes)
    let removed = 0
    for (const hash of hashes) {
      const folder = bundleFolder(dataDir, hash)
      if (used.includes(hash) || !(await this.#areOld([folder]))) continue
      await rm(folder, { recursive: true, force: true })
      removed += 1
    }
    return removed
  }

  async #areOld(folders: readonly string[]): Promise<boolean> {
    for (const folder of folders) {
      const found = await stat(folder).catch(() => null)
      if (found !== null && this.#options.clock.now() - found.mtimeMs < MIN_AGE_MS) return false
    }
    return true
  }
}

const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch(() => [])
