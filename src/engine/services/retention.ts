// Removes ended runs that are too old or too many, oldest first, a few rows at a time, so that no other writer waits long. The objects
// of a run are removed before its rows, so that the next call completes an interrupted removal. Called by `ork gc` and once an hour
// by a server.

import { rm } from "node:fs/promises"
import { messageOf } from "../../core/values/error-message.ts"
import { CACHE_PREFIX } from "../attempts/cached-outputs.ts"
import { runFolder } from "../attempts/folders.ts"
import { upstreamFolder } from "../attempts/upstream-files.ts"
import { bundleFolder, bundleHash, bundlePrefix, BUNDLES_PREFIX } from "../../objects/bundles/bundles.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { RunId } from "../../core/model/ids.ts"
import type { JobStore } from "../../store/contract/jobs.ts"
import type { Catalog } from "../../store/contract/catalog.ts"
import { Conflict } from "../../store/contract/errors.ts"
import type { Store } from "../../store/contract/store.ts"

const BATCH = 100
const MAX_ROWS = 500
const CACHE_BATCH = 1000

export interface RetentionRule {
  olderThanMs?: number
  /** Number of runs to keep per workflow: older ones are removed, whatever their age. */
  keep?: number
}

export interface RemovedRuns {
  removed: number
  /** Why runs are left, by run: files of tasks cannot be removed. */
  problems: ReadonlyMap<RunId, string>
}

/** Removes runs. A run whose files cannot be removed keeps none of the others. */
export const removeOldRuns = async (
  { store, objects, dataDir }: { store: Store & Pick<Catalog, "currentTime">; objects: ObjectStore; dataDir: string },
  rule: RetentionRule,
  signal?: AbortSignal,
): Promise<RemovedRuns> => {
  let removed = 0
  const problems = new Map<RunId, string>()
  for (;;) {
    const before = removed + problems.size
    const limit = BATCH + problems.size
    const listedAt = await store.currentTime()
    const removable = await store.removableRuns({ ...rule, limit })
    for (const runId of removable.filter((id) => !problems.has(id))) {
      if (signal?.aborted === true) return { removed, problems }
      const left = await removeRun({ store, objects, dataDir }, runId, listedAt).then(() => null, leftRun)
      if (left === null) removed += 1
      else if (left !== "") problems.set(runId, left)
    }
    if (removable.length < limit || removed + problems.size === before) return { removed, problems }
  }
}

/** Returns why a run stays, and throws errors that concern others too. Empty: it was retried since it was listed. */
const leftRun = (error: unknown): string => {
  if (error instanceof Conflict) return ""
  if (error instanceof FolderLeft) return error.message
  throw error
}

class FolderLeft extends Error {}

/** Removes jobs that finished this long ago, with their logs and outputs. A job goes after all that depend on it. Returns their number. */
export const removeOldJobs = async (
  { store, objects }: { store: Pick<JobStore, "removableJobs" | "deleteJob">; objects: Pick<ObjectStore, "deletePrefix"> },
  olderThanMs: number,
  signal?: AbortSignal,
): Promise<number> => {
  let removed = 0
  for (;;) {
    const removable = await store.removableJobs({ olderThanMs, limit: BATCH })
    for (const id of removable) {
      if (signal?.aborted === true) return removed
      // Rejected when it was retried in the meantime, or a job that depends on it was created.
      if ((await store.deleteJob(id, olderThanMs)) !== null) continue
      await objects.deletePrefix(`jobs/${id}/`)
      removed += 1
    }
    if (removable.length === 0) return removed
  }
}

/** Removes bundles that no version names, left by interrupted deploys. Returns their number. */
export const removeUnusedBundles = async (
  { store, objects, dataDir }: { store: Pick<Catalog, "bundlesInUse">; objects: ObjectStore; dataDir: string },
  signal?: AbortSignal,
): Promise<number> => {
  let removed = 0
  for (let after = ""; ;) {
    const keys = await objects.list(BUNDLES_PREFIX, { ...(after !== "" && { after }), limit: BATCH })
    const hashes = keys.map(bundleHash).filter((hash) => hash !== null)
    const used = new Set(await store.bundlesInUse(hashes))
    for (const hash of hashes.filter((one) => !used.has(one))) {
      if (signal?.aborted === true) return removed
      await objects.deletePrefix(bundlePrefix(hash))
      await rm(bundleFolder(dataDir, hash), { recursive: true, force: true })
      removed += 1
    }
    if (keys.length < BATCH) return removed
    after = keys.at(-1)!
  }
}

/** Removes cached outputs that no entry refers to any more. Returns their number. */
export const removeUnusedCachedOutputs = async (
  { store, objects }: { store: Pick<Store, "cachedKeysInUse">; objects: ObjectStore },
  signal?: AbortSignal,
): Promise<number> => {
  let removed = 0
  for (let after = ""; ;) {
    const keys = await objects.list(CACHE_PREFIX, { ...(after !== "" && { after }), limit: CACHE_BATCH })
    const used = new Set(await store.cachedKeysInUse(keys))
    for (const key of keys.filter((one) => !used.has(one))) {
      if (signal?.aborted === true) return removed
      await objects.deletePrefix(key.slice(0, key.lastIndexOf("/") + 1))
      removed += 1
    }
    if (keys.length < CACHE_BATCH) return removed
    after = keys.at(-1)!
  }
}

export const removeRun = async (
  { store, objects, dataDir }: { store: Pick<Store, "removeRun">; objects: Pick<ObjectStore, "deletePrefix">; dataDir: string },
  runId: RunId,
  endedBefore?: number,
): Promise<void> => {
  // Marks the run first, so that nobody retries it without its outputs.
  if (await store.removeRun(runId, 0, endedBefore)) return
  await objects.deletePrefix(`runs/${runId}/`)
  for (const folder of [runFolder(dataDir, runId), upstreamFolder(dataDir, runId)]) {
    await rm(folder, { recursive: true, force: true }).catch((error: unknown) => {
      throw new FolderLeft(`the folder ${folder} of run ${runId} cannot be removed: ${messageOf(error)}`, { cause: error })
    })
  }
  while (!(await store.removeRun(runId, MAX_ROWS))) continue
}
