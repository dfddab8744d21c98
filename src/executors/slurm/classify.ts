// Classifies how a job ended and why a submission failed. Pure.

import { describeExitCode } from "../container-messages.ts"
import { formatBytes } from "../../core/values/quantities.ts"
import { signalName } from "../messages.ts"
import type { Outcome } from "../remote/remote-attempt.ts"
import type { QueuedJob } from "./queue.ts"

/**
 * Returns the outcome of a job. A command that succeeded stays successful, whatever happened to its job afterwards. `code`:
 * exit code of the command, null when it wrote none. `job`: the job in the queue, null when it is no longer there.
 * `memoryBytes`: 0 when not limited.
 */
export const outcomeOf = (code: number | null, job: QueuedJob | null, memoryBytes: number): Outcome => {
  if (code === 0) return { state: "success", error: null, exitCode: 0 }
  const failed = (error: string): Outcome => ({ state: "failed", error, exitCode: code })
  const lost = (error: string): Outcome => ({ state: "lost", error, exitCode: code })
  switch (job?.state ?? "") {
    case "NODE_FAIL":
    case "BOOT_FAIL":
      return lost("its node failed")
    case "PREEMPTED":
      return lost("preempted by a job of higher priority")
    case "OUT_OF_MEMORY":
      return failed(`killed: used more than ${memoryBytes === 0 ? "the memory that the job has" : formatBytes(memoryBytes)}`)
    case "TIMEOUT":
      return { ...failed("stopped by Slurm at the job's time limit (slurm.time, or that of the partition)"), state: "timeout" }
    case "DEADLINE":
      return failed("stopped by Slurm at the job's deadline")
    case "CANCELLED":
      return failed("its job was cancelled from outside of Ork")
  }
  if (code !== null) return failed(describeExitCode(code))
  if (job === null) return lost("its job disappeared from the queue")
  if (job.signal !== 0) return failed(`its job was killed by ${signalName(job.signal)}${reasonOf(job)}`)
  return failed(`its job ended as ${job.state} before its command did${reasonOf(job)}`)
}

export const describeJob = (job: QueuedJob): string => `Slurm job ${job.id} is ${job.state}${reasonOf(job)}`

const reasonOf = ({ reason }: QueuedJob): string => (reason === "" || reason === "None" ? "" : ` (${reason})`)

const PERMANENT =
  /invalid (?:partition|account|qos|feature|generic resource|job id|constraint|time)|node configuration is not available|unrecognized option|can not be satisfied|more processors requested|memory required by task|access.*denied|violates/i

/** Errors of a cluster that accepts no more jobs for now: a full queue, or a limit of submitted jobs. */
const BUSY = /temporarily|submit\w*limit/i

/** Returns true when no later submission can succeed. */
export const isPermanent = (message: string): boolean => {
  // Slurm names the limit that a job violates; without a name it may be the number of submitted jobs.
  const unnamedLimit = /violates/i.test(message) && !/\w+Limit\b/.test(message)
  return PERMANENT.test(message) && !BUSY.test(message) && !unnamedLimit
}

/** Returns true when scancel failed because the job has ended. */
export const hasEndedBefore = (message: string): boolean => /invalid job id|already complet/i.test(message)

/** Returns true when the failed submission may have reached the cluster. */
export const mayHaveArrived = (message: string): boolean =>
  /timed out|connection|reset|unable to contact|SIGKILL/i.test(message)
