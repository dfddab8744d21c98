// The folders of runs on the worker's machine: `work`, which the tasks of a run share, `upstream`, and objects of attempts that a
// killed worker left. The worker asks the server about the state of their runs: folders of a removed run are removed; of an ended
// run only the `work` folder is kept for a retry, within limits. Folders in use are never removed.

import { readdir, rm, rmdir, stat, utimes } from "node:fs/promises"
import { join } from "node:path"
import { type CachedFolder, type CacheLimits, folderBytes, RECENT_MS, removeOldDrafts, selectEvicted } from "./eviction.ts"
import { isUuid } from "../../core/model/ids.ts"
import { MAX_RUNS_ASKED } from "../../protocol/api/workers.ts"

const LIMITS: CacheLimits = { maxAgeMs: 7 * 86_400_000, maxCount: 100, maxBytes: 2 * 2 ** 30 }
/** Interval at which the worker asks about a closed run, which may have been removed. */
const ENDED_CHECK_MS = 600_000

const KINDS = ["work", "upstream", "objects/runs"] as const

interface RunState {
  /** Attempts of this worker. */
  users: number
  ended: boolean
  /** Earliest time to ask the server about the run. */
  checkAt: number
  /** Size of the `work` folder of a closed run; null if not measured yet. */
  bytes: number | null
}

export class RunFolders {
  readonly #dataDir: string
  readonly #onRemove: () => void
  readonly #limits: CacheLimits
  readonly #runs = new Map<string, RunState>()
  readonly #removing = new Map<string, Promise<void>>()

  /** `onRemove` is called before folders are removed. */
  constructor(dataDir: string, onRemove: () => void, limits: CacheLimits = LIMITS) {
    this.#dataDir = dataDir
    this.#onRemove = onRemove
    this.#limits = limits
  }

  /** Adopts folders of earlier processes. Asks about them only when no other worker of this machine can be using them. */
  async start(): Promise<void> {
    for (const kind of KINDS) {
      for (const name of await readdir(join(this.#dataDir, kind)).catch(() => [])) {
        if (!isUuid(name) || this.#runs.has(name)) continue
        const found = await stat(join(this.#dataDir, kind, name)).catch(() => null)
        const checkAt = found === null ? 0 : found.mtimeMs + RECENT_MS
        this.#runs.set(name, { users: 0, ended: false, checkAt, bytes: null })
      }
    }
  }

  workFolder(runId: string): string {
    return join(this.#dataDir, "work", runId)
  }

  upstreamFolder(runId: string): string {
    return join(this.#dataDir, "upstream", runId)
  }

  /** Protects the folders of a run from removal until `release`. Resolves when a removal in progress has ended. */
  async use(runId: string): Promise<void> {
    const run = this.#runs.get(runId)
    this.#runs.set(runId, { users: (run?.users ?? 0) + 1, ended: false, checkAt: 0, bytes: null })
    await this.#removing.get(runId)
  }

  release(runId: string): void {
    const run = this.#runs.get(runId)
    if (run !== undefined) run.users -= 1
  }

  /** Returns runs to ask the server about, different ones each time. */
  runsToCheck(now: number): string[] {
    const due: string[] = []
    for (const [runId, run] of this.#runs) {
      if (due.length === MAX_RUNS_ASKED) break
      if (run.checkAt <= now) due.push(runId)
    }
    for (const runId of due) {
      const run = this.#runs.get(runId)!
      if (run.ended) run.checkAt = now + ENDED_CHECK_MS
      // Moves the run to the end of the map.
      this.#runs.delete(runId)
      this.#runs.set(runId, run)
    }
    return due
  }

  /** Removes the folders of a closed run except its `work` folder; removes that one too if it is empty. */
  async runEnded(runId: string, now: number): Promise<void> {
    const run = this.#runs.get(runId)
    if (run === undefined || run.users > 0 || run.ended) return
    run.ended = true
    run.checkAt = now + ENDED_CHECK_MS
    await this.#remove(runId, ["upstream", "objects/runs"])
    const empty = await rmdir(this.workFolder(runId)).then(
      () => true,
      (error: NodeJS.ErrnoException) => error.code === "ENOENT",
    )
    if (empty && this.#runs.get(runId) === run) this.#runs.delete(runId)
  }

  /** Removes all folders of a run, unless an attempt uses them. */
  async remove(runId: string): Promise<void> {
    if ((this.#runs.get(runId)?.users ?? 0) > 0) return
    this.#runs.delete(runId)
    await this.#remove(runId, KINDS)
  }

  /** Touches folders in use, for other workers of this machine, and removes folders of closed runs beyond the limits. */
  async sweep(now: number): Promise<void> {
    await removeOldDrafts(join(this.#dataDir, "work"), now)
    const unused: CachedFolder[] = []
    for (const [name, run] of this.#runs) {
      const folder = this.workFolder(name)
      if (run.users > 0) await utimes(folder, now / 1000, now / 1000).catch(() => {})
      if (run.users > 0 || !run.ended) continue
      const found = await stat(folder).catch(() => null)
      run.bytes ??= await folderBytes(folder).catch(() => 0)
      if (found !== null) unused.push({ name, usedAt: found.mtimeMs, bytes: run.bytes })
    }
    for (const { name } of selectEvicted(unused, now, this.#limits)) {
      if (this.#runs.get(name)?.ended === true) await this.remove(name)
    }
  }

  async #remove(runId: string, kinds: readonly string[]): Promise<void> {
    this.#onRemove()
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
