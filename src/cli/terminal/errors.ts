// Errors of the command line, and how any error is told: on standard error, one line each, with what to do. Exit codes: 2 for bad
// input, 1 for work that failed.

import { problemText } from "../../core/model/problems.ts"
import { ObjectStoreError } from "../../objects/errors.ts"
import { ClientError } from "../../protocol/client/errors.ts"
import { Conflict, NotFound, SchemaTooNew, StoreUnavailable } from "../../store/contract/errors.ts"

/** Something that the person at the keyboard can put right. Each line of the message is told by itself. */
export class InputError extends Error {
  override readonly name = "InputError"
}

/** Errors of the layers below whose message says all that is needed. */
const EXPLAINED = [NotFound, Conflict, SchemaTooNew, StoreUnavailable, ObjectStoreError] as const

const isSystemError = (error: Error): boolean => "syscall" in error && typeof error.syscall === "string"

export const explain = (error: unknown): { lines: string[]; exitCode: number } => {
  if (error instanceof InputError) return { lines: prefixed(error.message), exitCode: 2 }
  if (error instanceof ClientError) return refused(error)
  if (error instanceof Error && (EXPLAINED.some((known) => error instanceof known) || isSystemError(error))) {
    return { lines: prefixed(error.message), exitCode: 1 }
  }
  const detail = error instanceof Error ? (error.stack ?? error.message) : String(error)
  return { lines: [`ork: this is a bug in Ork; please report it: ${detail}`], exitCode: 1 }
}

/** Refusals that the person can put right by asking for something else. */
const BAD_INPUT: readonly string[] = ["VALIDATION_ERROR", "NOT_FOUND", "TOO_LARGE"]

const HINTS: Readonly<Record<string, string>> = {
  UNREACHABLE: "; start one with `ork serve`, or say where it is with --url or ORK_URL",
  UNAUTHORIZED: "; give its key with --api-key or ORK_API_KEY, or work in the folder of the server",
}

const refused = ({ code, message, details }: ClientError): { lines: string[]; exitCode: number } => {
  const exitCode = BAD_INPUT.includes(code) ? 2 : 1
  if (details.length > 0) return { lines: details.map((problem) => `ork: ${problemText(problem)}`), exitCode }
  return { lines: prefixed(`${message}${HINTS[code] ?? ""}`), exitCode }
}

const prefixed = (message: string): string[] => message.split("\n").map((line) => `ork: ${line}`)
