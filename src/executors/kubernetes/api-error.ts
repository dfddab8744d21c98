// Errors of requests to the API server, and whether a retry may help.

import { messageOf } from "../../core/values/error-message.ts"
import type { Clock } from "../../core/model/ports.ts"

/** A response other than 2xx. */
export class KubernetesApiError extends Error {
  readonly status: number
  /** Reason as defined by Kubernetes: AlreadyExists, Forbidden, Invalid, Expired, … */
  readonly reason: string
  readonly retryAfterMs: number | null

  constructor(status: number, reason: string, message: string, retryAfterMs: number | null = null) {
    super(message)
    this.name = "KubernetesApiError"
    this.status = status
    this.reason = reason
    this.retryAfterMs = retryAfterMs
  }
}

/** No response, or an incomplete one: the request may have been carried out. */
export class Unreachable extends Error {
  constructor(cause: unknown) {
    super(`the cluster cannot be reached: ${reasonOf(cause)}`, { cause })
    this.name = "Unreachable"
  }
}

/** Returns the message of the innermost cause, where a failed connection has its reason. */
const reasonOf = (error: unknown): string => {
  const { cause } = error instanceof Error ? error : {}
  const code = error instanceof Error && "code" in error ? String(error.code) : ""
  const message = cause === undefined ? messageOf(error) : messageOf(cause)
  return message === "" ? code : message
}

const DEFINITE_STATUSES = new Set([400, 401, 403, 404, 405, 409, 410, 413, 415, 422])
/** Time that a rejection of Ork's rights or credentials must last: an API server that starts rejects everybody for a while. */
const DENIED_MS = 30_000

export const isStatus = (error: unknown, status: number): error is KubernetesApiError =>
  error instanceof KubernetesApiError && error.status === status

/** Returns whether a quota is exhausted, which is reported as 403 but passes. */
const isQuota = (error: KubernetesApiError): boolean => error.status === 403 && /exceeded quota/i.test(error.message)

/** Returns true when the same request may succeed later. */
export const isTransient = (error: unknown): boolean =>
  !(error instanceof KubernetesApiError) || !DEFINITE_STATUSES.has(error.status) || isQuota(error)

/** Returns true when the failed request may have been carried out. */
export const mayHaveSucceeded = (error: unknown): boolean => !(error instanceof KubernetesApiError) || error.status >= 500

/** Decides about the errors of one request that is repeated: it is denied when 401 or 403 lasts. */
export class DenialWindow {
  readonly #clock: Clock
  #deniedSince: number | null = null

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Returns true when the request should be repeated. */
  readonly allows = (error: unknown): boolean => {
    const denied = !isTransient(error) && (isStatus(error, 401) || isStatus(error, 403))
    if (!denied) {
      this.#deniedSince = null
      return isTransient(error)
    }
    const now = this.#clock.monotonic()
    this.#deniedSince ??= now
    return now - this.#deniedSince < DENIED_MS
  }

  reset(): void {
    this.#deniedSince = null
  }
}

/** Returns true when no later attempt can succeed. 401 is not among them: the cluster's authenticator may be unavailable. */
export const isPermanent = (error: unknown): boolean =>
  error instanceof KubernetesApiError && [400, 403, 404, 413, 422].includes(error.status) && !isQuota(error)

/** Builds an error from the response of the API server. */
export const errorOf = (status: number, body: string, retryAfter: string | undefined): KubernetesApiError => {
  let reason = ""
  let message = body.slice(0, 1000).trim()
  try {
    const parsed = JSON.parse(body) as { reason?: unknown; message?: unknown }
    if (typeof parsed.reason === "string") reason = parsed.reason
    if (typeof parsed.message === "string") message = parsed.message
  } catch {
    // A proxy answered, not the API server: the message is the body as it is.
  }
  const seconds = Number(retryAfter)
  const retryAfterMs = retryAfter !== undefined && Number.isFinite(seconds) ? seconds * 1000 : null
  return new KubernetesApiError(status, reason, message === "" ? `HTTP ${status}` : message, retryAfterMs)
}

/** Returns the message with advice on missing credentials and rights. */
export const describeError = (error: unknown): string => {
  if (error instanceof KubernetesApiError && error.status === 401) {
    return `the cluster rejects Ork's credentials (401 ${error.message}): check the user of the kubeconfig, or the service account`
  }
  if (error instanceof KubernetesApiError && error.status === 403) {
    return `the cluster does not allow it: ${error.message} (the rights that Ork needs are in deploy/kubernetes/rbac.yaml)`
  }
  return messageOf(error)
}
