// Results of workers that tasks are pushed to. Proven by the token of the attempt, which came with the task.

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
    summary: "How a task ended that was pushed to a worker",
    scope: null,
    body: { schema: taskResultBody, required: true },
    responses: { 204: { description: "Taken" } },
    errors: [401, 409],
    requires: "push",
    handle({ body, request, api }) {
      const token = body.token ?? bearer(request.headers.authorization)
      if (token === "") throw unauthorized("the token of the attempt is required, as Authorization: Bearer TOKEN")
      const taken = api.parts.push!({
        taskId: body.task_instance_id,
        token,
        state: body.status.toLowerCase() as PushedResult["state"],
        output: (body.output ?? null) as Json,
        error: body.error ?? null,
        exitCode: body.exit_code ?? null,
        log: body.log ?? "",
      })
      if (!taken) throw conflict("no attempt of that task is live here under that token")
      return { status: 204 }
    },
  }),
]
