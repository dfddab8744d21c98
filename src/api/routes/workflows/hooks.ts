// Webhooks that trigger a workflow. A request requires no key, but a signature with one of the workflow's secrets over timestamp, name and
// body. A repeated message returns the run that it created first, and is rejected once that run was removed. An unknown name gets the
// same response as a wrong signature.

import type { FastifyRequest } from "fastify"
import { isObject, type JsonObject } from "../../../core/values/json.ts"
import { run } from "../../../protocol/api/runs.ts"
import { workflowParams } from "../../../protocol/api/workflows.ts"
import { runShape } from "../../../engine/run-json.ts"
import { equalText, headersProblem, SIGNATURE_HEADER, signatureOf, TIMESTAMP_HEADER } from "../../../protocol/wire/signature.ts"
import { parseJson } from "../../http/body.ts"
import type { Api } from "../../http/ports.ts"
import { ApiError, conflict, invalid, unauthorized, unavailable } from "../../shared/errors.ts"
import { route } from "../../http/route.ts"

const single = (header: string | string[] | undefined): string | undefined => (typeof header === "string" ? header : undefined)

const signedHeaders = (request: FastifyRequest) => ({
  timestamp: single(request.headers[TIMESTAMP_HEADER]),
  signature: single(request.headers[SIGNATURE_HEADER]),
})

/** Returns the source of wrong signatures. They have their own limit: wrong API keys from the same address do not block webhooks. */
const sourceOf = (request: FastifyRequest): string => `hook ${request.ip}`

const WRONG =
  "there is no such webhook, or X-Ork-Signature does not match: it must be sha256= and the HMAC-SHA256 of timestamp.name.body in hex"

/** Reads a secret. Logs why it cannot be read, and hides the reason from callers without a key. */
const readSecret = async (api: Api, name: string): Promise<string | null> => {
  try {
    const secret = await api.secret(name)
    if (secret === null) api.log.warn({ secret: name }, "the secret of a webhook is not set")
    return secret
  } catch (error) {
    api.log.warn({ secret: name, error: String(error) }, "failed to read the secret of a webhook")
    throw unavailable("the secret of this webhook cannot be read now")
  }
}

/** Returns whether one of the secrets signed the message. Without a secret, the check takes as long as with one. */
const isSigned = (
  secrets: readonly (string | null)[],
  { timestamp, signature }: ReturnType<typeof signedHeaders>,
  text: string,
) => {
  const candidates = secrets.length === 0 ? [null] : secrets
  const matches = candidates.map(
    (secret) => equalText(signature!, signatureOf(secret ?? "", timestamp!, text)) && secret !== null,
  )
  return matches.includes(true)
}

export const hookRoutes = [
  route({
    method: "POST",
    path: "/hooks/{name}",
    summary: "Trigger a workflow by its webhook; the body has the params, X-Ork-Signature and X-Ork-Timestamp sign it",
    scope: null,
    params: workflowParams,
    body: { text: ["application/json"], example: '{ "date": "2026-01-31" }' },
    responses: {
      200: { description: "The run that the same message created before", schema: run },
      201: { description: "The new run", schema: run },
    },
    errors: [401, 409, 413, 429],
    audit: "run.hook",
    admit({ request, api }) {
      api.auth.checkThrottle(sourceOf(request))
      const problem = headersProblem(signedHeaders(request), api.clock.now())
      api.auth.checkProof(sourceOf(request), problem === null ? null : unauthorized(problem))
    },
    async handle({ params, body, request, api }) {
      const headers = signedHeaders(request)
      const found = await api.store.getWorkflow(params.name)
      const secrets = await Promise.all([found?.compiled.webhook?.secret ?? []].flat().map((name) => readSecret(api, name)))
      const signed = isSigned(secrets, headers, `${params.name}.${body.text}`)
      api.auth.checkProof(sourceOf(request), signed ? null : unauthorized(WRONG))
      const values = parseJson(body.text) ?? {}
      if (!isObject(values)) throw new ApiError("VALIDATION_ERROR", "the body must be an object: the params of the run")
      const idempotencyKey = `hook:${headers.signature!}`
      if (await api.store.isMessageUsed(idempotencyKey)) throw conflict("this message was used before, and its run was deleted")
      const triggered = await api.runs.trigger({
        workflow: found!,
        trigger: "webhook",
        params: values as JsonObject,
        priority: null,
        logicalDate: null,
        idempotencyKey,
      })
      if ("problems" in triggered) throw invalid(triggered.problems)
      return { status: triggered.created ? 201 : 200, body: runShape(triggered.run) }
    },
  }),
]
