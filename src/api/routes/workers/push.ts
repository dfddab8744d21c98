// Results of tasks that were pushed to a worker. The worker proves its claim with the attempt's token, which it got with the task. A
// token in the header is checked before the body is read; a token in the body allows only a small body.

import type { FastifyRequest } from "fastify"
import type { Json } from "../../../core/values/json.ts"
import { taskResultBody } from "../../../protocol/api/workers.ts"
import { BODY_LIMIT, inexactNumberIn, OPEN_BODY_LIMIT } from "../../http/body.ts"
import { ApiError, conflict, unauthorized } from "../../shared/errors.ts"
import type { Api, PushedResult } from "../../http/ports.ts"
import { route } from "../../http/route.ts"

const bearer = (header: string | undefined): string => /^Bearer +(\S+) *$/i.exec(header ?? "")?.[1] ?? ""

const wrongToken = (): ApiError => conflict("no attempt of that task is in flight on this server with that token")

const admit = ({ request, api }: { request: FastifyRequest; api: Api }): void => {
  const token = bearer(request.headers.authorization)
  if (token !== "") return api.auth.checkProof(request.ip, api.parts.push!.hasToken(token) ? null : wrongToken())
  api.auth.checkThrottle(request.ip)
  if (Number(request.headers["content-length"] ?? Infinity) > OPEN_BODY_LIMIT) {
    throw new ApiError(
      "TOO_LARGE",
      `a body of more than ${OPEN_BODY_LIMIT} bytes requires the token as Authorization: Bearer TOKEN`,
    )
  }
}

export const pushRoutes = [
  route({
    method: "POST",
    path: "/internal/task-result",
    summary: "Report the result of a task that was pushed to a worker",
    scope: null,
    admit,
    bodyLimit: BODY_LIMIT,
    body: { schema: taskResultBody, required: true, anyNumbers: true },
    responses: { 204: { description: "The result is committed" } },
    errors: [401, 409, 429],
    requires: "push",
    async handle({ body, request, api }) {
      const token = body.token ?? bearer(request.headers.authorization)
      if (token === "") throw unauthorized("the token of the attempt is required, as Authorization: Bearer TOKEN")
      // A worker would send a rejected result again and again: the task fails instead.
      const inexact = inexactNumberIn(request.body as string)
      const accepted = await api.parts.push!.receive({
        taskId: body.task_instance_id,
        token,
        ...(inexact === null
          ? {
              state: body.status.toLowerCase() as PushedResult["state"],
              output: (body.output ?? null) as Json,
              error: body.error ?? null,
            }
          : { state: "failed", output: null, error: `its output contains ${inexact}` }),
        exitCode: body.exit_code ?? null,
        workerId: body.worker_id ?? null,
        log: body.log ?? "",
      })
      api.auth.checkProof(request.ip, accepted ? null : wrongToken())
      return { status: 204 }
    },
  }),
]
