// How a job ended, in words.

import type { AttemptState } from "../../core/model/status.ts"
import { bytesInWords, signalName } from "../messages.ts"
import type { QueuedJob } from "./queue.ts"

export interface Ending {
  state: Extract<AttemptState, "success" | "failed" | "lost" | "timeout">
  error: string | null
  exitCode: number | null
}

const SIGNALLED = 128

const exitInWords = (code: number): string =>
  code > SIGNALLED && code <= SIGNALLED + 64 ? `exit code ${code} (${signalName(code - SIGNALLED)})` : `exit code ${code}`

/**
 * `code` is what the command left (null: it was not there to do so), `job` what the queue says (null: no longer there). A command that
 * had ended well stays so, whatever happened to its job after that.
 */
export const endingOf = (code: number | null, job: QueuedJob | null, memoryBytes: number): Ending => {
  if (code === 0) return { state: "success", error: null, exitCode: 0 }
  const failed = (error: string): Ending => ({ state: "failed", error, exitCode: code })
  const lost = (error: string): Ending => ({ state: "lost", error, exitCode: code })
  switch (job?.state ?? "") {
    case "NODE_FAIL":
    case "BOOT_FAIL":
      return lost("its node failed")
    case "PREEMPTED":
      return lost("preempted by a job of higher priority")
    case "OUT_OF_MEMORY":
      return failed(`killed: used more than ${memoryBytes === 0 ? "the memory that the job has" : bytesInWords(memoryBytes)}`)
    case "TIMEOUT":
      return { ...failed("stopped by Slurm at the job's time limit (slurm.time, or that of the partition)"), state: "timeout" }
    case "DEADLINE":
      return failed("stopped by Slurm at the job's deadline")
    case "CANCELLED":
      return failed("its job was cancelled from outside of Ork")
  }
  if (code !== null) return failed(exitInWords(code))
  if (job === null) return lost("its job left the queue without a trace")
  const reason = job.reason === "" || job.reason === "None" ? "" : ` (${job.reason})`
  if (job.signal !== 0) return failed(`its job was killed by ${signalName(job.signal)}${reason}`)
  return failed(`its job ended as ${job.state} before its command did${reason}`)
}

/** What no second try will change. */
const HOPELESS =
  /invalid (?:partition|account|qos|feature|generic resource|job id|constraint|time)|node configuration is not available|unrecognized option|can not be satisfied|more processors requested|memory required by task|access.*denied|violates/i

export const isHopeless = (message: string): boolean => HOPELESS.test(message)

/** The request may have arrived all the same. */
export const isUnsure = (message: string): boolean => /timed out|connection|reset|unable to contact|SIGKILL/i.test(message)
