// Builds an assignment for a worker. It names folders instead of creating them: the worker creates them on its machine.

import type { AssignmentBuilder } from "../attempts/assignment-builder.ts"
import { nodeOf } from "../attempts/claims.ts"
import { outputsName } from "../attempts/upstream-files.ts"
import type { EngineOptions, Folders } from "../ports.ts"
import type { JsonObject } from "../../core/values/json.ts"
import type * as wire from "../../protocol/api/workers.ts"
import type { Claim } from "../../store/contract/store.ts"
import type { z } from "zod"

export const buildRemoteAssignment = async (
  assignments: AssignmentBuilder,
  { store, observer }: EngineOptions,
  claim: Claim,
): Promise<Omit<z.output<typeof wire.assignment>, "token">> => {
  const { workflow, node } = nodeOf(store, claim)
  let upstream: z.output<typeof wire.assignment>["upstream"] = null
  let workingDir: string | null = null
  const folders: Folders = {
    workingDir: async (_claim, wanted) => {
      workingDir = wanted
      return { baseDir: "", workingDir: "" }
    },
    code: async (_claim, bundle) => (bundle === null ? null : { folder: "", bundle }),
    upstream: async (_claim, outputs) => {
      upstream = { folder: outputsName(outputs), tasks: [...outputs.keys()] }
      return ""
    },
    // The assignment names the artifacts.
    artifacts: async () => "",
  }
  const { callback, ...work } = await assignments.build(claim, workflow, node, folders)
  Object.assign(work.env, callback?.(), observer?.environment?.(claim))
  return {
    row: claim.row,
    attempt_id: claim.attemptId,
    job: claim.kind === "job",
    base_dir: claim.kind === "job" ? null : claim.run.workingDir,
    working_dir: workingDir,
    bundle: workflow.bundle ?? null,
    upstream,
    work: work as unknown as JsonObject,
  }
}
