// What the API server said no with, and what may be tried again.

import { messageOf } from "../../core/model/error-message.ts"

/** An answer other than 2xx. */
export class ApiError extends Error {
  readonly status: number
  /** Kubernetes' own word: AlreadyExists, Forbidden, Invalid, Expired, … */
  readonly reason: string
  readonly retryAfterMs: number | null

  constructor(status: number, reason: string, message: string, retryAfterMs: number | null = null) {
    super(message)
    this.name = "ApiError"
    this.status = status
    this.reason = reason
    this.retryAfterMs = retryAfterMs
  }
}

/** No answer, or one that broke off: the request may have been carried out. */
export class Unreachable extends Error {
  constructor(cause: unknown) {
    super(`the cluster cannot be reached: ${reasonOf(cause)}`, { cause })
    this.name = "Unreachable"
  }
}

/** A failed connection has its reason further down. */
const reasonOf = (error: unknown): string => {
  const { cause } = error instanceof Error ? error : {}
  const code = error instanceof Error && "code" in error ? String(error.code) : ""
  const message = cause === undefined ? messageOf(error) : messageOf(cause)
  return message === "" ? code : message
}

const DEFINITE = new Set([400, 401, 403, 404, 405, 409, 410, 413, 415, 422])

export const isStatus = (error: unknown, status: number): error is ApiError =>
  error instanceof ApiError && error.status === status

/** Trying the same request again may help. */
export const isPassing = (error: unknown): boolean => !(error instanceof ApiError) || !DEFINITE.has(error.status)

/** A quota is a matter of time, though it comes as a refusal. */
const isQuota = (error: ApiError): boolean => error.status === 403 && /exceeded quota/i.test(error.message)

/** No later attempt of the task will fare better. 401 may: whoever checks credentials for the cluster may be away. */
export const isHopeless = (error: unknown): boolean =>
  error instanceof ApiError && [400, 403, 404, 413, 422].includes(error.status) && !isQuota(error)

/** What the API server answered in its body, as an error. */
export const errorOf = (status: number, body: string, retryAfter: string | undefined): ApiError => {
  let reason = ""
  let message = body.slice(0, 1000).trim()
  try {
    const parsed = JSON.parse(body) as { reason?: unknown; message?: unknown }
    if (typeof parsed.reason === "string") reason = parsed.reason
    if (typeof parsed.message === "string") message = parsed.message
  } catch {
    // A proxy in between speaks another language.
  }
  const seconds = Number(retryAfter)
  const retryAfterMs = retryAfter !== undefined && Number.isFinite(seconds) ? seconds * 1000 : null
  return new ApiError(status, reason, message === "" ? `HTTP ${status}` : message, retryAfterMs)
}

/** With what to do about it. */
export const inWords = (error: unknown): string => {
  if (error instanceof ApiError && error.status === 401) {
    return `the cluster does not know who asks (401 ${error.message}): check the user of the kubeconfig, or the service account`
  }
  if (error instanceof ApiError && error.status === 403) {
    return `the cluster does not allow it: ${error.message} (the rights that Ork needs are in deploy/kubernetes/rbac.yaml)`
  }
  return messageOf(error)
}
