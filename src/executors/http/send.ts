// Sends a request of a task, with its redirects, to a host that the administrator's policy allows.

import type { Response } from "undici"
import { messageOf } from "../../core/values/error-message.ts"
import { hostViolation } from "../../core/rules/access/policy.ts"
import type { Assignment } from "../executor.ts"
import { formatBytes } from "../../core/values/quantities.ts"
import { BlockedRequest, type GuardedInit, guardedFetch, type HttpPolicy } from "./guarded-fetch.ts"
import { BadRequest, type HttpRequest } from "./request.ts"
import { readBody } from "./response.ts"

export type PermittedRequest = HttpRequest & { policy: Assignment["policy"] }

interface SendOptions extends Pick<GuardedInit, "signal" | "onRedirect"> {
  policy: HttpPolicy
}

/** Rejects when there is no response: with an error that `isPermanent`, or with one that names the reason. */
export const send = async (
  request: PermittedRequest,
  { policy, ...options }: SendOptions,
): Promise<{ response: Response; body: Buffer }> => {
  try {
    const init = {
      method: request.method,
      headers: request.headers,
      ...(request.body !== null && { body: request.body }),
      redirects: request.redirects,
      check: (url: URL) => checkHost(request.policy, url),
      ...options,
    }
    const response = await guardedFetch(request.url, init, policy)
    const body = await readBody(response, request.maxBody)
    if (body === null) throw tooLarge(response, request)
    return { response, body }
  } catch (error) {
    throw isPermanent(error) ? error : new Error(`no response: ${reasonOf(error)}`, { cause: error })
  }
}

export const isPermanent = (error: unknown): boolean => error instanceof BadRequest || error instanceof BlockedRequest

const checkHost = (policy: Assignment["policy"], url: URL): void => {
  const forbidden = policy === undefined ? null : hostViolation(policy, url)
  if (forbidden !== null) throw new BlockedRequest(forbidden)
}

const tooLarge = (response: Response, { url, maxBody, redact }: HttpRequest): BadRequest =>
  new BadRequest(
    `${redact(url)} responded ${response.status} with a body of more than ${formatBytes(maxBody)}; raise http.max_body (up to max_output)`,
  )

const reasonOf = (error: unknown): string => {
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error
  // A host with several addresses has one error for each.
  if (reason instanceof AggregateError && reason.errors.length > 0) return reason.errors.map(messageOf).join("; ")
  return messageOf(reason)
}
