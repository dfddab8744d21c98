// A process's output as its helper reports it: small ones come inside the report, larger ones are read from where they lie.

import { rm } from "node:fs/promises"
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

/** Synchronous for the common cases, so that a small task costs no file operation here. */
export const readOutput = (exited: Exited, outputPath: string, target: OutputTarget): OutputResult | Promise<OutputResult> => {
  const { answer, outputSize, line } = exited
  if (outputSize > target.maxBytes) return tooLarge("output", outputSize, target.maxBytes)
  if (answer?.from === "output") return parseOutput(answer.bytes, target.secrets)
  if (outputSize > 0) return storeFile(outputPath, target)
  if (answer?.from === "line") return parseLine(answer.bytes, target.maxBytes)
  return line.length > INLINE_MAX || line.split ? outputFromLog(line, target) : NO_OUTPUT
}

/** Files that the helper left for this side to read. */
export const removeOutput = (path: string): Promise<void> => rm(path, { force: true })
