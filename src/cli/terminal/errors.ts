// Errors of the command line, and the text and exit code for any error. Exit code 2 means bad input, 1 means that work failed.

import { BackupError } from "../../backup/errors.ts"
import { problemText } from "../../core/model/problems.ts"
import { MissingPackage } from "../../core/settings/optional-packages.ts"
import { UnusableSetting } from "../../core/settings/unusable-setting.ts"
import { ObjectStoreError } from "../../objects/errors.ts"
import { ClientError } from "../../protocol/client/errors.ts"
import { Conflict, NotFound, SchemaTooNew, StoreUnavailable } from "../../store/contract/errors.ts"

/** An error that the user can correct. Each line of the message is printed as an error of its own. */
export class InputError extends Error {
  override readonly name = "InputError"
}

/** The folder had a server, which does not respond. */
export class UnresponsiveServer extends Error {
  override readonly name = "UnresponsiveServer"
}

/** Errors whose message is written for users, and that another input does not avoid. */
const USER_ERRORS = [
  UnresponsiveServer,
  MissingPackage,
  NotFound,
  Conflict,
  SchemaTooNew,
  StoreUnavailable,
  ObjectStoreError,
  BackupError,
] as const

export interface ErrorDescription {
  /** Lines for standard error. */
  lines: string[]
  exitCode: number
}

export const describeError = (error: unknown): ErrorDescription => {
  if (error instanceof InputError || error instanceof UnusableSetting) return { lines: prefixed(error.message), exitCode: 2 }
  if (error instanceof ClientError) return describeClientError(error)
  if (error instanceof Error && (USER_ERRORS.some((known) => error instanceof known) || isSystemError(error))) {
    return { lines: prefixed(error.message), exitCode: 1 }
  }
  const detail = error instanceof Error ? (error.stack ?? error.message) : String(error)
  return { lines: [`ork: this is a bug in Ork; please report it: ${detail}`], exitCode: 1 }
}

const isSystemError = (error: Error): boolean => "syscall" in error && typeof error.syscall === "string"

/** Error codes of the API that another input avoids. */
const BAD_INPUT: readonly string[] = ["VALIDATION_ERROR", "NOT_FOUND", "TOO_LARGE"]

const HINTS: Readonly<Record<string, string>> = {
  UNREACHABLE: "; start one with `ork serve`, or give its address with --url or ORK_URL",
  UNAUTHORIZED: "; give its key with --api-key or ORK_API_KEY, or work in the folder of the server",
}

const describeClientError = ({ code, message, details }: ClientError): ErrorDescription => {
  const exitCode = BAD_INPUT.includes(code) ? 2 : 1
  if (details.length > 0) return { lines: details.map((problem) => `ork: ${problemText(problem)}`), exitCode }
  return { lines: prefixed(`${message}${HINTS[code] ?? ""}`), exitCode }
}

const prefixed = (message: string): string[] => message.split("\n").map((line) => `ork: ${line}`)
