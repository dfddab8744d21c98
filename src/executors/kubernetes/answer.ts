// The result of an attempt whose container has ended: its output is what it wrote to $ORK_OUTPUT, which the cluster shows as its termination
// message, else the last line of its log when that is JSON.

import type { AttemptResult } from "../../core/model/change.ts"
import type { LastLine } from "../../objects/logs/log-writer.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Assignment } from "../executor.ts"
import { type Answer, lineAnswer, NOTHING, parseOutput } from "../output.ts"
import type { Ending } from "./classify.ts"

/** What is longer is cut off by the cluster, from its beginning. */
const MAX_MESSAGE = 4096

export interface AnswerParts {
  objects: ObjectStore
  assignment: Assignment
  /** All of the log was had. */
  whole: boolean
}

export const answerOf = async (
  ending: Ending,
  log: { last: LastLine } | null,
  { objects, assignment, whole }: AnswerParts,
): Promise<Pick<AttemptResult, "state" | "error" | "output" | "retryable">> => {
  const { state, error, message, retryable } = ending
  const note = whole ? "" : " (its log is incomplete)"
  if (state !== "success") return { state, error: (error ?? "") + note, ...(retryable === false && { retryable }) }
  const { prefix, maxOutputBytes, secrets } = assignment
  const answer = await (message.trim() === ""
    ? whole
      ? log === null
        ? NOTHING
        : lineAnswer(log.last, { objects, prefix, maxBytes: maxOutputBytes, secrets })
      : { error: "its log could not be read to its end, so its output is not known" }
    : messageAnswer(message, secrets))
  return "error" in answer ? { state: "failed", error: answer.error } : { state, output: answer.output }
}

const messageAnswer = (message: string, secrets: readonly string[]): Answer => {
  const bytes = Buffer.from(message)
  if (bytes.length < MAX_MESSAGE) return parseOutput(bytes, secrets)
  return {
    error: `what it wrote to $ORK_OUTPUT is larger than the ${MAX_MESSAGE} bytes that Kubernetes passes on: print it as the last line, or use kubernetes.exec`,
  }
}
