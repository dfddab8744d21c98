// Reads a claim, alike for a task of a run and for a job.

import { jobRetryCounts, jobWorkflow } from "../../core/rules/jobs/job-node.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import { attemptPrefix, jobAttemptPrefix } from "../../objects/objects.ts"
import type { ClaimedJob } from "../../store/contract/claim.ts"
import type { CancelReason, Claim, JobClaim, Store, TaskClaim } from "../../store/contract/store.ts"

const jobWorkflows = new WeakMap<ClaimedJob, CompiledWorkflow>()

/** Builds the workflow of a claimed job once: every step of an attempt reads its node. */
const workflowOfJob = (job: ClaimedJob): CompiledWorkflow => {
  let workflow = jobWorkflows.get(job)
  if (workflow === undefined) jobWorkflows.set(job, (workflow = jobWorkflow(job)))
  return workflow
}

/** Returns the compiled node of a claim. A job is the only node of a workflow of its own. */
export const nodeOf = (
  store: Pick<Store, "compiledNow">,
  claim: Pick<TaskClaim, "kind" | "versionId" | "node"> | Pick<JobClaim, "kind" | "job">,
): { workflow: CompiledWorkflow; node: Node } => {
  if (claim.kind === "job") {
    const workflow = workflowOfJob(claim.job)
    return { workflow, node: workflow.nodes[0]! }
  }
  const workflow = store.compiledNow(claim.versionId)
  return { workflow, node: workflow.nodes[claim.node]! }
}

/** Returns the failures and losses that count against the retries of a claim. */
export const retriesUsed = (
  claim: Pick<TaskClaim, "kind" | "failures" | "losses"> | Pick<JobClaim, "kind" | "job" | "failures" | "losses">,
): { failures: number; losses: number } => {
  if (claim.kind === "job") return jobRetryCounts(claim.job, claim)
  const { failures, losses } = claim
  return { failures, losses }
}

/** Returns why the run of a claim is being cancelled; null: it is not. Cancelled jobs are reported by `advance`. */
export const cancellingOf = (claim: Claim): CancelReason | null => (claim.kind === "job" ? null : claim.run.cancelling)

/** Returns the id of the run or job whose folder and objects an attempt uses. */
export const ownerOf = (claim: Claim): string => (claim.kind === "job" ? claim.job.id : claim.runId)

export const objectPrefixOf = (claim: Claim, node: Node): string =>
  claim.kind === "job"
    ? jobAttemptPrefix(claim.job.id, claim.attemptId)
    : attemptPrefix(claim.runId, node.name, claim.attemptId)

export const logFieldsOf = (claim: Claim): { run: string } | { job: string } =>
  claim.kind === "job" ? { job: claim.job.id } : { run: claim.runId }

/** Returns whether a claim is the first attempt of a task that is ready as soon as its run is created. */
export const isFirstOfRun = (claim: Claim, node: Node): claim is TaskClaim =>
  claim.kind !== "job" && claim.attempt === 1 && claim.path === "" && node.upstream.length === 0 && node.hook === null
