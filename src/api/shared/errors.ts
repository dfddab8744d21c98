// Errors as the API sends them: `{ error: { code, message, details? } }`. `toApiError` maps every error that a handler or a lower layer
// can throw. An unknown error becomes INTERNAL, and the response contains nothing of it.

import { type Problem, problemText } from "../../core/model/problems.ts"
import { ERROR_CODES, type ErrorCode } from "../../protocol/api/common.ts"
import { ObjectStoreError } from "../../objects/errors.ts"
import { Conflict, NotFound, StoreUnavailable } from "../../store/contract/errors.ts"

export interface ErrorBody {
  error: { code: ErrorCode; message: string; details?: Problem[] }
}

export class ApiError extends Error {
  override readonly name = "ApiError"
  readonly code: ErrorCode
  readonly details: Problem[] | undefined
  readonly headers: Readonly<Record<string, string>>

  constructor(code: ErrorCode, message: string, more: { details?: Problem[]; headers?: Record<string, string> } = {}) {
    super(message)
    this.code = code
    this.details = more.details
    this.headers = more.headers ?? {}
  }

  get status(): number {
    return ERROR_CODES[this.code]
  }

  body(): ErrorBody {
    return {
      error: { code: this.code, message: this.message, ...(this.details !== undefined && { details: this.details }) },
    }
  }
}

/** Seconds that a client should wait while the database is unavailable. */
const RETRY_AFTER_SECONDS = 2

export const notFound = (message: string): ApiError => new ApiError("NOT_FOUND", message)
export const noRun = (id: string): ApiError => notFound(`there is no run ${id}`)
export const noWorkflow = (name: string): ApiError =>
  notFound(`there is no workflow ${name}; GET /workflows lists the deployed workflows`)
export const conflict = (message: string): ApiError => new ApiError("CONFLICT", message)

export const unauthorized = (message: string): ApiError =>
  new ApiError("UNAUTHORIZED", message, { headers: { "www-authenticate": 'Bearer realm="ork"' } })

export const rateLimited = (seconds: number): ApiError =>
  new ApiError("RATE_LIMITED", `too many wrong keys from this address; try again in ${seconds} s`, {
    headers: { "retry-after": String(seconds) },
  })

export const unavailable = (message: string): ApiError =>
  new ApiError("UNAVAILABLE", message, { headers: { "retry-after": String(RETRY_AFTER_SECONDS) } })

export const internal = (requestId: string): ApiError =>
  new ApiError("INTERNAL", `an internal error occurred; the server's log has the details under request ${requestId}`)

const MAX_PROBLEMS = 100

/** Returns an error with up to `max` problems as details, and with the first one and their number as message. */
export const invalid = (problems: Problem[], max = MAX_PROBLEMS): ApiError => {
  const rest = problems.length > 1 ? ` (and ${problems.length - 1} more, see details)` : ""
  const first = problems[0] === undefined ? "" : problemText(problems[0])
  return new ApiError("VALIDATION_ERROR", `${first}${rest}`, { details: problems.slice(0, max) })
}

export const invalidField = (path: string, message: string): ApiError => invalid([{ path, message }])

/** Errors of fastify itself, by code. */
const FASTIFY_ERRORS: Readonly<Record<string, (bodyLimit: number) => ApiError>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: (limit) =>
    new ApiError("TOO_LARGE", `the body is larger than ${limit} bytes; send less in one request`),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: () =>
    new ApiError("UNSUPPORTED_MEDIA_TYPE", "send the body as JSON with the header Content-Type: application/json"),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: () =>
    new ApiError("VALIDATION_ERROR", "the length of the body differs from its Content-Length"),
  FST_ERR_BAD_URL: () => new ApiError("VALIDATION_ERROR", "the address is not a valid URL path"),
  FST_ERR_MAX_URL_LENGTH: () => new ApiError("VALIDATION_ERROR", "the address is too long"),
}

const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : ""

/** Returns null for an internal error, which the caller logs. */
export const toApiError = (error: unknown, bodyLimit: number): ApiError | null => {
  if (error instanceof ApiError) return error
  if (error instanceof NotFound) return notFound(error.message)
  if (error instanceof Conflict) return conflict(error.message)
  if (error instanceof StoreUnavailable) return unavailable("the database is not available; try again in a moment")
  if (error instanceof ObjectStoreError && error.transient) {
    return unavailable("the object store is not available; try again in a moment")
  }
  const known = FASTIFY_ERRORS[codeOf(error)]
  if (known !== undefined) return known(bodyLimit)
  const status = error instanceof Error && "statusCode" in error ? Number(error.statusCode) : 500
  return status >= 400 && status < 500 ? new ApiError("VALIDATION_ERROR", "the request could not be read") : null
}
