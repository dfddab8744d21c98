// The one error of the client: what the server refused, or that there was no answer.

import { messageOf } from "../../core/model/error-message.ts"
import type { Problem } from "../../core/model/problems.ts"
import { isObject } from "../../core/model/json.ts"
import type { ErrorCode } from "../api/common.ts"

/** `UNREACHABLE`: no answer. `UNREADABLE`: an answer that is not one of an Ork server. */
export type ClientErrorCode = ErrorCode | "UNREACHABLE" | "UNREADABLE"

export class ClientError extends Error {
  override readonly name = "ClientError"
  readonly code: ClientErrorCode
  /** null: there was no answer. */
  readonly status: number | null
  /** All that is wrong, where the server says more than one thing. */
  readonly details: readonly Problem[]
  /** The server asks to come again after so long: it has changed nothing. */
  readonly retryAfterMs: number | null

  constructor(
    code: ClientErrorCode,
    message: string,
    more: { status?: number; details?: readonly Problem[]; retryAfterMs?: number | null; cause?: unknown } = {},
  ) {
    super(message, more.cause === undefined ? {} : { cause: more.cause })
    this.code = code
    this.status = more.status ?? null
    this.details = more.details ?? []
    this.retryAfterMs = more.retryAfterMs ?? null
  }
}

/** The error of an answer that is no success. */
export const refusalOf = async (response: Response, url: string): Promise<ClientError> => {
  const { status } = response
  const seconds = Number(response.headers.get("retry-after") ?? "none")
  const retryAfterMs = Number.isFinite(seconds) ? seconds * 1000 : null
  const body = parse(await response.text().catch(() => ""))
  const error = isObject(body) && isObject(body["error"]) ? body["error"] : null
  if (error === null || typeof error["code"] !== "string" || typeof error["message"] !== "string") {
    return new ClientError("UNREADABLE", `${url} answered ${status}, and not as an Ork server does; is it one?`, {
      status,
      retryAfterMs,
    })
  }
  const details = Array.isArray(error["details"]) ? (error["details"] as Problem[]) : []
  return new ClientError(error["code"] as ErrorCode, error["message"], { status, details, retryAfterMs })
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Why there was no answer, in words: the cause of a failed fetch says it, fetch itself does not. */
export const unreachable = (url: string, error: unknown): ClientError => {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : ""
  const late = error instanceof Error && error.name === "TimeoutError"
  const reason = late ? "it did not answer in time" : (REASONS[code] ?? messageOf(cause))
  return new ClientError("UNREACHABLE", `no server answers at ${url}: ${reason}`, { cause: error })
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there",
  ECONNRESET: "the connection was cut",
  UND_ERR_SOCKET: "the connection was cut",
  ENOTFOUND: "there is no such host",
  EAI_AGAIN: "the host name could not be looked up",
}
