// The folders of runs on the worker's machine: `work`, shared by a run's tasks, `upstream`, and what a killed worker left of its attempts'
// objects. The server is asked what became of their runs. With a run that is gone they go too; of one that has ended only its
// working folder stays, for a retry, as long as there is room. What is in use is never touched.

import { readdir, rm, rmdir, stat, utimes } from "node:fs/promises"
import { join } from "node:path"
import { selectEvicted, type CacheLimits, type CachedFolder, RECENT_MS, removeOldDrafts, folderBytes } from "./eviction.ts"
import { isUuid } from "../../core/model/ids.ts"
import { MAX_RUNS_ASKED } from "../../protocol/api/workers.ts"

const BOUNDS: CacheLimits = { maxAgeMs: 7 * 86_400_000, maxCount: 100, maxBytes: 2 * 2 ** 30 }
/** A run that has ended is asked about rarely: it may be removed. */
const ENDED_ASK_MS = 600_000

interface Run {
  /** Attempts of this worker. */
  users: number
  removeFinished: boolean
  /** Not to be asked about before. */
  askAt: number
  /** Of its working folder, once it has ended and was looked at. */
  bytes: number | null
}

export class RunFolders {
  readonly #dataDir: string
  readonly #told: () => void
  readonly #bounds: CacheLimits
  readonly #runs = new Map<string, Run>()
  readonly #removing = new Map<string, Promise<void>>()

  /** `removing` is told before folders go, for whoever remembers that they are there. */
  constructor(dataDir: string, removing: () => void, bounds: CacheLimits = BOUNDS) {
    this.#dataDir = dataDir
    this.#told = removing
    this.#bounds = bounds
  }

  /** Folders that an earlier process left are asked about too, once it is sure that no other worker is busy in them. */
  async start(): Promise<void> {
    for (const kind of KINDS) {
      for (const name of await readdir(join(this.#dataDir, kind)).catch(() => [])) {
        if (!isUuid(name) || this.#runs.has(name)) continue
        const found = await stat(join(this.#dataDir, kind, name)).catch(() => null)
        const askAt = found === null ? 0 : found.mtimeMs + RECENT_MS
        this.#runs.set(name, { users: 0, removeFinished: false, askAt, bytes: null })
      }
    }
  }

  folder(runId: string): string {
    return join(this.#dataDir, "work", runId)
  }

  upstream(runId: string): string {
    return join(this.#dataDir, "upstream", runId)
  }

  /** An attempt begins; its run is not over, whatever was said before. Resolves when nothing of it is being removed. */
  async use(runId: string): Promise<void> {
    const run = this.#runs.get(runId)
    this.#runs.set(runId, { users: (run?.users ?? 0) + 1, removeFinished: false, askAt: 0, bytes: null })
    await this.#removing.get(runId)
  }

  release(runId: string): void {
    const run = this.#runs.get(runId)
    if (run !== undefined) run.users -= 1
  }

  /** Runs to ask the server about, other ones each time. */
  runsToCheck(now: number): string[] {
    const asked: string[] = []
    for (const [runId, run] of this.#runs) {
      if (asked.length === MAX_RUNS_ASKED) break
      if (run.askAt <= now) asked.push(runId)
    }
    for (const runId of asked) {
      const run = this.#runs.get(runId)!
      if (run.removeFinished) run.askAt = now + ENDED_ASK_MS
      this.#runs.delete(runId)
      this.#runs.set(runId, run)
    }
    return asked
  }

  /** Its working folder stays, unless nothing is in it. */
  async ended(runId: string, now: number): Promise<void> {
    const run = this.#runs.get(runId)
    if (run === undefined || run.users > 0 || run.removeFinished) return
    run.removeFinished = true
    run.askAt = now + ENDED_ASK_MS
    await this.#remove(runId, ["upstream", "objects/runs"])
    const empty = await rmdir(this.folder(runId)).then(
      () => true,
      (error: NodeJS.ErrnoException) => error.code === "ENOENT",
    )
    if (empty && this.#runs.get(runId) === run) this.#runs.delete(runId)
  }

  async remove(runId: string): Promise<void> {
    if ((this.#runs.get(runId)?.users ?? 0) > 0) return
    this.#runs.delete(runId)
    await this.#remove(runId, KINDS)
  }

  /** What is in use is marked as such, for other workers of this machine; what ended goes when there is too much of it. */
  async sweep(now: number): Promise<void> {
    await removeOldDrafts(join(this.#dataDir, "work"), now)
    const idle: CachedFolder[] = []
    for (const [name, run] of this.#runs) {
      const folder = this.folder(name)
      if (run.users > 0) await utimes(folder, now / 1000, now / 1000).catch(() => {})
      if (run.users > 0 || !run.removeFinished) continue
      const found = await stat(folder).catch(() => null)
      run.bytes ??= await folderBytes(folder).catch(() => 0)
      if (found !== null) idle.push({ name, usedAt: found.mtimeMs, bytes: run.bytes })
    }
    for (const { name } of selectEvicted(idle, now, this.#bounds)) {
      if (this.#runs.get(name)?.removeFinished === true) await this.remove(name)
    }
  }

  async #remove(runId: string, kinds: readonly string[]): Promise<void> {
    this.#told()
    const before = this.#removing.get(runId)
    const removing = (async () => {
      await before
      for (const kind of kinds) await rm(join(this.#dataDir, kind, runId), { recursive: true, force: true })
    })()
    this.#removing.set(runId, removing)
    try {
      await removing
    } finally {
      if (this.#removing.get(runId) === removing) this.#removing.delete(runId)
    }
  }
}

const KINDS = ["work", "upstream", "objects/runs"] as const
