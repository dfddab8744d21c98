// Returns the workflow, the node and the history of a claim, for a task of a run and for a job.

import { jobRetryCounts, jobWorkflow } from "../../core/rules/jobs/job-workflow.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import { attemptPrefix, jobAttemptPrefix } from "../../objects/objects.ts"
import type { ClaimedJob } from "../../store/contract/claim.ts"
import type { CancelReason, Claim, JobClaim, Store, TaskClaim } from "../../store/contract/store.ts"

type JobSettings = Omit<ClaimedJob, "id" | "payload">

/** Workflows by job, and the last one by task: stores return one object for the task of all jobs that share it. */
const workflows = new WeakMap<object, { settings: JobSettings; workflow: CompiledWorkflow }>()

const isSame = (a: JobSettings, b: JobSettings): boolean =>
  a.name === b.name &&
  a.queue === b.queue &&
  a.retryPolicy === b.retryPolicy &&
  a.retry === b.retry &&
  a.timeoutMs === b.timeoutMs

/** Builds the workflow of a claimed job once. Consecutive jobs with the same settings share one. */
const workflowOfJob = (job: ClaimedJob): CompiledWorkflow => {
  const known = (job.task === null ? undefined : workflows.get(job.task)) ?? workflows.get(job)
  if (known !== undefined && isSame(known.settings, job)) return known.workflow
  const { id: _, payload: _payload, ...settings } = job
  const built = workflows.get(job) ?? { settings, workflow: jobWorkflow(settings) }
  workflows.set(job, built)
  if (job.task !== null) workflows.set(job.task, built)
  return built.workflow
}

/** Returns the compiled node of a claim. A job is the only node of a workflow of its own. */
export const nodeOf = (
  store: Pick<Store, "getLoadedVersion">,
  claim: Pick<TaskClaim, "kind" | "versionId" | "node"> | Pick<JobClaim, "kind" | "job">,
): { workflow: CompiledWorkflow; node: Node } => {
  if (claim.kind === "job") {
    const workflow = workflowOfJob(claim.job)
    return { workflow, node: workflow.nodes[0]! }
  }
  const workflow = store.getLoadedVersion(claim.versionId)
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
export const runOrJobIdOf = (claim: Claim): string => (claim.kind === "job" ? claim.job.id : claim.runId)

export const objectPrefixOf = (claim: Claim, node: Node): string =>
  claim.kind === "job"
    ? jobAttemptPrefix(claim.job.id, claim.attemptId)
    : attemptPrefix(claim.runId, node.name, claim.attemptId)

export const logFieldsOf = (claim: Claim): { run: string } | { job: string } =>
  claim.kind === "job" ? { job: claim.job.id } : { run: claim.runId }

/** Returns whether a claim is the first attempt of a task that is ready as soon as its run is created. */
export const isFirstOfRun = (claim: Claim, node: Node): claim is TaskClaim =>
  claim.kind !== "job" && claim.attempt === 1 && claim.path === "" && node.upstream.length === 0 && node.hook === null
