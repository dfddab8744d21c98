// Large outputs in the cache (`cache:`). The cache has copies of its own, and a run that reuses one gets a copy too: removing a run, or
// the end of an entry's time to live, takes nothing from others.

import type { EngineOptions } from "../ports.ts"
import { outputKey } from "./outputs.ts"
import type { Output } from "../../core/model/change.ts"
import { copyObject } from "../../objects/shared/copy-object.ts"
import type { TaskClaim } from "../../store/contract/store.ts"

export const CACHE_PREFIX = "cache/"

type Options = Pick<EngineOptions, "objects">
type LargeOutput = Extract<Output, { key: string }>

export const copyToCache = async ({ objects }: Options, claim: TaskClaim, output: LargeOutput): Promise<Output> => {
  const key = `${CACHE_PREFIX}${claim.workflowId}/${claim.attemptId}/output.json`
  const bytes = await copyObject(objects, output.key, key)
  if (bytes === null) throw new Error(`the output ${output.key} is gone from the object store`)
  return { key, bytes }
}

/** Returns the output of a task that reuses a cached one; null if the object store does not have it any more. */
export const copyFromCache = async (
  { objects }: Options,
  claim: TaskClaim,
  task: string,
  cached: Output,
): Promise<Output | null> => {
  if ("inline" in cached) return cached
  const key = outputKey(claim.runId, task, claim.attemptId)
  const bytes = await copyObject(objects, cached.key, key)
  return bytes === null ? null : { key, bytes }
}
