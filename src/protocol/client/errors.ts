// The error of the client: a request that the server rejected, or that got no response.

import { messageOf } from "../../core/values/error-message.ts"
import type { Problem } from "../../core/model/problems.ts"
import { isObject } from "../../core/values/json.ts"
import type { ErrorCode } from "../api/common.ts"

/** `UNREACHABLE`: no response. `UNREADABLE`: a response that is not from an Ork server. */
export type ClientErrorCode = ErrorCode | "UNREACHABLE" | "UNREADABLE"

export class ClientError extends Error {
  override readonly name = "ClientError"
  readonly code: ClientErrorCode
  /** HTTP status; null without a response. */
  readonly status: number | null
  /** Problems of the request, when the server reports more than one. */
  readonly details: readonly Problem[]
  /** Set when the server changed nothing and asks to retry after this time. */
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

/** Reads the error from a response that is not a success. */
export const errorOfResponse = async (response: Response, url: string): Promise<ClientError> => {
  const { status } = response
  const seconds = Number(response.headers.get("retry-after") ?? "none")
  const retryAfterMs = Number.isFinite(seconds) ? seconds * 1000 : null
  const body = parse(await response.text().catch(() => ""))
  const error = isObject(body) && isObject(body["error"]) ? body["error"] : null
  if (error === null || typeof error["code"] !== "string" || typeof error["message"] !== "string") {
    return new ClientError("UNREADABLE", `${url} replied with status ${status}, but not like an Ork server; check the URL`, {
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

/** Describes a request without a response; the reason is in the cause of the error that fetch throws. */
export const unreachable = (url: string, error: unknown): ClientError => {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : ""
  const isTimeout = error instanceof Error && error.name === "TimeoutError"
  const reason = isTimeout ? "it did not respond in time" : (REASONS[code] ?? messageOf(cause))
  return new ClientError("UNREACHABLE", `no server responds at ${url}: ${reason}`, { cause: error })
}

const REASONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "the connection was refused",
  ECONNRESET: "the connection was closed",
  UND_ERR_SOCKET: "the connection was closed",
  ENOTFOUND: "there is no such host",
  EAI_AGAIN: "the host name could not be looked up",
}
