// Sends the requests of waits, under the same rules as http tasks.

import type { AllowedHost } from "../../core/settings/http-allow.ts"
import type { JsonObject } from "../../core/values/json.ts"
import type { Assignment } from "../executor.ts"
import { type HttpPolicy, httpPolicy } from "../http/guarded-fetch.ts"
import { BadRequest, httpRequest } from "../http/request.ts"
import { responseOutput } from "../http/response.ts"
import { send } from "../http/send.ts"
import { BrokenCondition } from "./broken-condition.ts"

export class Requests {
  readonly #policy: HttpPolicy
  readonly #maxOutputBytes: number

  constructor({ allow, maxOutputBytes }: { allow: readonly AllowedHost[]; maxOutputBytes: number }) {
    this.#policy = httpPolicy({ allow })
    this.#maxOutputBytes = maxOutputBytes
  }

  /** Rejects without a response; with a BrokenCondition when another request cannot help. */
  async respond({
    timeoutMs,
    policy,
    ...given
  }: Pick<Assignment, "fields" | "secrets" | "policy"> & { timeoutMs: number }): Promise<{
    response: JsonObject
    expected: boolean
  }> {
    try {
      const request = httpRequest({ ...given, maxOutputBytes: this.#maxOutputBytes })
      const signal = AbortSignal.timeout(timeoutMs)
      const { response, body } = await send({ ...request, policy }, { signal, policy: this.#policy })
      return { response: responseOutput(response, body), expected: request.expect(response.status) }
    } catch (error) {
      if (error instanceof BadRequest || isUnknownHost(error))
        throw new BrokenCondition((error as Error).message, { cause: error })
      throw error
    }
  }

  stop(): Promise<void> {
    return this.#policy.close()
  }
}

/** Returns whether a host does not exist, which is a mistake in the URL. A name that cannot be resolved now (EAI_AGAIN) is not. */
const isUnknownHost = (error: unknown): boolean => {
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if ("code" in cause && cause.code === "ENOTFOUND") return true
  }
  return false
}
