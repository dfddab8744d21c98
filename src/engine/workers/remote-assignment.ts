// An assignment for a worker: as for work of one's own, but that folders are told by name, for the worker to make on its machine.

import { nodeOf } from "../attempts/claims.ts"
import type { Folders, AssignmentBuilder } from "../attempts/assignment-builder.ts"
import type { EngineOptions } from "../ports.ts"
import type { JsonObject } from "../../core/model/json.ts"
import type * as wire from "../../protocol/api/workers.ts"
import type { Claim } from "../../store/contract/store.ts"
import type { z } from "zod"

export const remoteAssignment = async (
  inputs: AssignmentBuilder,
  { store, observer }: EngineOptions,
  claim: Claim,
): Promise<Omit<z.output<typeof wire.assignment>, "token">> => {
  const { workflow, node } = nodeOf(store, claim)
  const upstream: string[] = []
  let wanted: string | null = null
  const folders: Folders = {
    workingDir: (_claim, dir) => {
      wanted = dir
      return Promise.resolve("")
    },
    code: (_claim, bundle) => Promise.resolve(bundle === null ? null : { folder: "", bundle }),
    upstream: (_claim, name) => {
      upstream.push(name)
      return Promise.resolve("")
    },
  }
  const { callback, ...work } = await inputs.build(claim, workflow, node, folders)
  Object.assign(work.env, callback?.(), observer?.environment?.(claim))
  return {
    row: claim.row,
    attempt_id: claim.attemptId,
    job: claim.kind === "job",
    base_dir: claim.kind === "job" ? null : claim.run.workingDir,
    working_dir: wanted,
    bundle: workflow.bundle ?? null,
    upstream,
    work: work as unknown as JsonObject,
  }
}
