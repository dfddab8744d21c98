// A process's output as its helper reports it: small ones come inside the report, larger ones are read from where they lie.

import { rm } from "node:fs/promises"
import { type Answer, lineAnswer, NOTHING, type OutputPlace, parseLine, parseOutput, storeFile, tooLarge } from "../output.ts"
import { INLINE_MAX } from "./protocol.ts"
import type { Exited } from "./protocol.ts"

/** Synchronous for the common cases, so that a small task costs no file operation here. */
export const readOutput = (exited: Exited, outputPath: string, place: OutputPlace): Answer | Promise<Answer> => {
  const { answer, outputSize, line } = exited
  if (outputSize > place.maxBytes) return tooLarge("output", outputSize, place.maxBytes)
  if (answer?.from === "output") return parseOutput(answer.bytes, place.secrets)
  if (outputSize > 0) return storeFile(outputPath, place)
  if (answer?.from === "line") return parseLine(answer.bytes, place.maxBytes)
  return line.length > INLINE_MAX || line.split ? lineAnswer(line, place) : NOTHING
}

/** Files that the helper left for this side to read. */
export const removeOutput = (path: string): Promise<void> => rm(path, { force: true })
