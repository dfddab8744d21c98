// Converts what a function returned or threw to JSON.

import { inspect } from "node:util"
import { type ErrorMark, markOf } from "../errors.ts"
import type { FunctionError } from "../pool/frames.ts"

/** Encodes a return value; undefined becomes null. Throws when it cannot be encoded or is too large. */
export const jsonOf = (value: unknown, maxBytes: number): string => {
  if (value === undefined) return "null"
  const kind = typeof value
  if (kind === "function" || kind === "symbol") throw new TypeError(`the function returned a ${kind}, which is not JSON`)
  let json: string | undefined
  try {
    json = JSON.stringify(value) as string | undefined
  } catch (error) {
    throw new TypeError(`what the function returned cannot be written as JSON: ${firstLine(error)}`, { cause: error })
  }
  if (json === undefined)
    throw new TypeError("what the function returned cannot be written as JSON: its toJSON returns nothing")
  // A character has at least one byte, so that this is certainly too large. The pool measures the rest in bytes.
  if (json.length > maxBytes) {
    throw new RangeError(
      `its output of ${json.length} characters is larger than the limit of ${maxBytes} bytes: write it to a file or store and give its address`,
    )
  }
  return json
}

/** Describes any thrown value. */
export class ErrorReport {
  readonly #error: unknown

  constructor(error: unknown) {
    this.#error = error
  }

  /** The stack without frames of Ork. */
  get stack(): string {
    const lines = describe(this.#error).split("\n")
    return lines
      .filter((line) => !line.trimStart().startsWith("at ") || !OWN_CALLS.some((own) => line.includes(own)))
      .join("\n")
  }

  get json(): string {
    const { terminal, retryAfterMs } = safeMarkOf(this.#error)
    const report: FunctionError = {
      message: messageOf(this.#error),
      ...(terminal === true && { terminal }),
      ...(retryAfterMs !== undefined && { retryAfterMs }),
    }
    return JSON.stringify(report)
  }
}

const safeMarkOf = (error: unknown): ErrorMark => {
  try {
    return markOf(error)
  } catch {
    return {}
  }
}

const MAX_MESSAGE = 4096
/** Stack frames of this package and of promises. */
const OWN_CALLS = [new URL("../../", import.meta.url).href, "node:internal/process/task_queues"]

/** Returns a text for any value: a message may be of any type, and its getter may throw. */
const messageOf = (error: unknown): string => {
  const text = ownMessage(error) ?? describe(error)
  return text.length > MAX_MESSAGE ? `${text.slice(0, MAX_MESSAGE)}…` : text
}

const ownMessage = (error: unknown): string | null => {
  if (typeof error === "string") return error
  try {
    if (!(error instanceof Error)) return null
    const { message, name }: { message: unknown; name: unknown } = error
    const text = message === undefined || message === "" ? name : message
    return typeof text === "string" ? text : describe(text)
  } catch {
    return null
  }
}

const describe = (value: unknown): string => {
  try {
    return inspect(value)
  } catch {
    return "an error that cannot be described"
  }
}

const firstLine = (error: unknown): string => messageOf(error).split("\n")[0]!
