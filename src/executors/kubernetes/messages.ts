// Ends of containers in words.

import { exitCodeInWords, outOfMemory, programInWords } from "../remote/container-messages.ts"
import type { Terminated } from "./shapes.ts"

/** Of what a container leaves as its last words. */
const MAX_MESSAGE = 1000

export const exitInWords = ({ exitCode, reason, message = "" }: Terminated, memoryBytes: number): string => {
  const end = exitCodeInWords(exitCode)
  if (reason === "OOMKilled") return `${end}: ${outOfMemory(memoryBytes)}`
  const last = message.trim()
  return last === "" ? end : `${end}: ${last.slice(-MAX_MESSAGE)}`
}

export const startInWords = (message: string): string =>
  programInWords(message) ?? (message || "the container could not be run")
