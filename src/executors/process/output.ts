// Reads a process's output as its helper reports it: small outputs are in the event, larger ones in their file or in the log.

import {
  type OutputResult,
  outputFromLog,
  NO_OUTPUT,
  type OutputTarget,
  parseLine,
  parseOutput,
  storeFile,
  tooLarge,
} from "../output.ts"
import { INLINE_MAX } from "./protocol.ts"
import type { Exited } from "./protocol.ts"

/** Returns synchronously for small outputs, which need no file operation. */
export const reportedOutput = (
  { inlineOutput, outputSize, line }: Exited,
  outputPath: string,
  target: OutputTarget,
): OutputResult | Promise<OutputResult> => {
  if (outputSize > target.maxBytes) return tooLarge("output", outputSize, target.maxBytes)
  if (inlineOutput?.from === "output") return parseOutput(inlineOutput.bytes, target.secrets)
  if (outputSize > 0) return storeFile(outputPath, target)
  if (inlineOutput?.from === "line") return parseLine(inlineOutput.bytes, target.maxBytes)
  return line.length > INLINE_MAX || line.split ? outputFromLog(line, target) : NO_OUTPUT
}
