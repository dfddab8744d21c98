// Webhooks that trigger a workflow. A request requires no key, but a signature with the workflow's secret. A repeated message returns the
// run that it created first.

import type { FastifyRequest } from "fastify"
import { isObject, type JsonObject } from "../../core/model/json.ts"
import { run } from "../../protocol/api/runs.ts"
import { workflowParams } from "../../protocol/api/workflows.ts"
import { runShape } from "../../protocol/api/shapes.ts"
import { SIGNATURE_HEADER, signatureProblem, TIMESTAMP_HEADER } from "../../protocol/wire/signature.ts"
import { parseJson } from "../http/body.ts"
import type { Api } from "../http/ports.ts"
import { ApiError, invalid, notFound, unavailable } from "../http/errors.ts"
import { route } from "../http/route.ts"

const single = (header: string | string[] | undefined): string | undefined => (typeof header === "string" ? header : undefined)

/** Reads a secret. Logs why it cannot be read, and hides the reason from callers without a key. */
const readSecret = async (api: Api, name: string): Promise<string | null> => {
  try {
    return await api.secret(name)
  } catch (error) {
    api.log.warn({ secret: name, error: String(error) }, "failed to read the secret of a webhook")
    throw unavailable("the secret of this webhook cannot be read now")
  }
}

/** Returns the signature of a message. Throws UNAUTHORIZED when it is wrong. */
const checkSignature = async (api: Api, request: FastifyRequest, secretName: string, body: string): Promise<string> => {
  const secret = await readSecret(api, secretName)
  if (secret === null) throw unavailable("the secret of this webhook is not set on the server")
  const signature = single(request.headers[SIGNATURE_HEADER])
  const timestamp = single(request.headers[TIMESTAMP_HEADER])
  const problem = signatureProblem(secret, { timestamp, signature, body }, api.clock.now())
  if (problem !== null) {
    api.auth.recordFailure(request.ip)
    throw new ApiError("UNAUTHORIZED", problem)
  }
  return signature!
}

export const hookRoutes = [
  route({
    method: "POST",
    path: "/hooks/{name}",
    tag: "hooks",
    summary: "Trigger a workflow by its webhook; the body has the params, X-Ork-Signature and X-Ork-Timestamp sign it",
    scope: null,
    params: workflowParams,
    body: { text: ["application/json"], example: '{ "date": "2026-01-31" }' },
    responses: {
      200: { description: "The run that the same message created before", schema: run },
      201: { description: "The new run", schema: run },
    },
    errors: [401, 429],
    audit: "run.hook",
    async handle({ params, body, request, api }) {
      api.auth.checkThrottle(request.ip)
      const found = await api.store.getWorkflow(params.name)
      const webhook = found?.compiled.webhook
      if (found === null || webhook === undefined) throw notFound(`there is no webhook ${params.name}`)
      const signature = await checkSignature(api, request, webhook.secret, body.text)
      const values = parseJson(body.text) ?? {}
      if (!isObject(values)) throw new ApiError("VALIDATION_ERROR", "the body must be an object: the params of the run")
      const triggered = await api.runs.trigger({
        workflow: found,
        trigger: "webhook",
        params: values as JsonObject,
        priority: null,
        logicalDate: null,
        idempotencyKey: `hook:${signature}`,
      })
      if ("problems" in triggered) throw invalid(triggered.problems)
      return { status: triggered.created ? 201 : 200, body: runShape(triggered.run), target: triggered.run.id }
    },
  }),
]
