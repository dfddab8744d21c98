// Reads the output of a container that succeeded: its termination message, which is the content of $ORK_OUTPUT, or else the
// last line of its log if that is JSON.

import type { LastLine } from "../../objects/logs/log-writer.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { Assignment } from "../executor.ts"
import { NO_OUTPUT, outputFromLog, type OutputResult, parseOutput } from "../output.ts"

/** Kubernetes truncates longer termination messages at their start. */
const MAX_MESSAGE = 4096

export interface ReadLog {
  complete: boolean
  /** null: the log was never opened. */
  last: LastLine | null
}

export const outputOf = async (
  message: string,
  { complete, last }: ReadLog,
  objects: ObjectStore,
  { prefix, maxOutputBytes: maxBytes, secrets }: Assignment,
): Promise<OutputResult> => {
  if (message.trim() !== "") return messageOutput(message, secrets)
  if (!complete) return { error: "its log could not be read to its end, so its output is not known" }
  return last === null ? NO_OUTPUT : await outputFromLog(last, { objects, prefix, maxBytes, secrets })
}

const messageOutput = (message: string, secrets: readonly string[]): OutputResult => {
  const bytes = Buffer.from(message)
  if (bytes.length < MAX_MESSAGE) return parseOutput(bytes, secrets)
  return {
    error: `what it wrote to $ORK_OUTPUT is larger than the ${MAX_MESSAGE} bytes that Kubernetes passes on: print it as the last line, or use kubernetes.exec`,
  }
}
