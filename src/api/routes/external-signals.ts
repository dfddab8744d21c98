// External signals to waiting tasks: approvals by people, callbacks of services that do deferred work.

import { approvalBody, callbackBody, callbackParams, task, taskParams } from "../../protocol/api/runs.ts"
import type { Json } from "../../core/model/json.ts"
import { NotFound } from "../../store/contract/errors.ts"
import type { Caller } from "../auth/auth.ts"
import { findTask, taskDetails } from "../views/find-task.ts"
import type { Api } from "../http/ports.ts"
import { route } from "../http/route.ts"
import { findRun } from "./runs.ts"

/** Returns the name of the key, which the task's output shows as the approver. */
const approverName = async (api: Api, { keyId }: Caller): Promise<string> => {
  if (keyId === null) return "admin"
  const keys = await api.store.listKeys()
  return keys.find(({ id }) => id === keyId)?.name ?? keyId
}

export const externalSignalRoutes = [
  ...(["approve", "reject"] as const).map((verb) =>
    route({
      method: "POST",
      path: `/runs/{id}/tasks/{name}/${verb}`,
      tag: "tasks",
      summary:
        verb === "approve" ? "Approve a task that waits for approval" : "Reject a task that waits for approval, which fails it",
      scope: "trigger",
      params: taskParams,
      body: { schema: approvalBody },
      responses: { 200: { description: "The task", schema: task } },
      errors: [409],
      audit: `task.${verb}`,
      async handle({ params, body, caller, api }) {
        const found = await findRun(api, params.id)
        const { name, path } = await findTask(api, found, params.name, body)
        const comment = body.comment ?? null
        const by = await approverName(api, caller)
        await api.externalSignals.approval({ runId: found.id, name, path, approved: verb === "approve", comment, by })
        const finished = await findTask(api, found, name, { path })
        const details = comment === null ? {} : { details: comment }
        return { status: 200, body: await taskDetails(api, found, finished), ...details }
      },
    }),
  ),
  route({
    method: "POST",
    path: "/callbacks/{token}",
    tag: "tasks",
    summary: "Finish a task that deferred its work; the token (ORK_CALLBACK_URL) works once",
    scope: null,
    params: callbackParams,
    body: { schema: callbackBody },
    responses: { 204: { description: "The callback was accepted" } },
    errors: [404, 409, 429],
    audit: "task.callback",
    async handle({ params, body, request, api }) {
      api.auth.checkThrottle(request.ip)
      const { status, error } = body
      const signal = { status: status ?? "success", ...(error !== undefined && { error }) } as const
      try {
        const output = body.output === undefined ? {} : { output: body.output as Json }
        await api.externalSignals.callback(params.token, { ...signal, ...output })
      } catch (problem) {
        if (problem instanceof NotFound) api.auth.recordFailure(request.ip)
        throw problem
      }
      return { status: 204, target: "callback", details: signal.status }
    },
  }),
]
