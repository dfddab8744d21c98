// Results of tasks that were pushed to a worker. The worker proves its claim with the attempt's token, which it got with the task.

import type { Json } from "../../core/model/json.ts"
import { taskResultBody } from "../../protocol/api/workers.ts"
import { conflict, unauthorized } from "../http/errors.ts"
import type { PushedResult } from "../http/ports.ts"
import { route } from "../http/route.ts"

const bearer = (header: string | undefined): string => /^Bearer +(\S+) *$/i.exec(header ?? "")?.[1] ?? ""

export const pushRoutes = [
  route({
    method: "POST",
    path: "/internal/task-result",
    tag: "worker protocol",
    summary: "Report the result of a task that was pushed to a worker",
    scope: null,
    body: { schema: taskResultBody, required: true },
    responses: { 204: { description: "The result was accepted" } },
    errors: [401, 409],
    requires: "push",
    handle({ body, request, api }) {
      const token = body.token ?? bearer(request.headers.authorization)
      if (token === "") throw unauthorized("the token of the attempt is required, as Authorization: Bearer TOKEN")
      const accepted = api.parts.push!({
        taskId: body.task_instance_id,
        token,
        state: body.status.toLowerCase() as PushedResult["state"],
        output: (body.output ?? null) as Json,
        error: body.error ?? null,
        exitCode: body.exit_code ?? null,
        log: body.log ?? "",
      })
      if (!accepted) throw conflict("no attempt of that task is in flight on this server with that token")
      return { status: 204 }
    },
  }),
]
