// Reads a process's output as its helper reports it: small outputs are in the event, larger ones in their file or in the log.

import { constants } from "node:os"
import { errnoName } from "../messages.ts"
import { MAX_INLINE_OUTPUT_BYTES } from "../../core/model/change.ts"
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
import type { Exited } from "./protocol.ts"

const { EISDIR, EINVAL, ELOOP } = constants.errno

const describeErrno = (errno: number): string => {
  switch (errno) {
    case EISDIR:
      return "it is a folder"
    case ELOOP:
      return "it is a symbolic link"
    case EINVAL:
      return "it is not a regular file"
    default:
      return errnoName(errno)
  }
}

/** Returns synchronously for small outputs, which need no file operation. */
export const reportedOutput = (
  { inlineOutput, outputSize, outputErrno, line }: Exited,
  outputPath: string,
  target: OutputTarget,
): OutputResult | Promise<OutputResult> => {
  if (outputErrno !== 0) return { error: `$ORK_OUTPUT cannot be read: ${describeErrno(outputErrno)}` }
  if (outputSize > target.maxBytes) return tooLarge("output", outputSize, target.maxBytes)
  if (inlineOutput?.from === "output") return parseOutput(inlineOutput.bytes, target.secrets)
  if (outputSize > 0) return storeFile(outputPath, target)
  if (target.format !== undefined) return outputFromLog(line, target)
  if (inlineOutput?.from === "line") return parseLine(inlineOutput.bytes, target.maxBytes)
  return line.length > MAX_INLINE_OUTPUT_BYTES || line.split ? outputFromLog(line, target) : NO_OUTPUT
}
