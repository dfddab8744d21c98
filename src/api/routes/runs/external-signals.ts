// External signals to waiting tasks: approvals by people, callbacks of services that do deferred work.

import { approvalBody, approvalParams, callbackBody, callbackParams, task } from "../../../protocol/api/runs.ts"
import type { Json } from "../../../core/values/json.ts"
import type { RunRow, TaskRow } from "../../../store/contract/store.ts"
import { findTask, type InstanceSelector, taskDetails } from "../../views/find-task.ts"
import type { Api } from "../../http/ports.ts"
import { notFound } from "../../shared/errors.ts"
import { describeAction } from "../../../store/contract/audit-scope.ts"
import { route } from "../../http/route.ts"
import { findRun } from "../../http/find-run.ts"

/** Returns what an answer names, and the task that it concerns: the task itself, or of a durable function the only one. */
const findAnswered = async (
  api: Api,
  run: RunRow,
  name: string,
  selector: InstanceSelector,
): Promise<{ name: string; path: string; task: TaskRow }> => {
  const [first] = (await api.store.getVersion(run.versionId)).nodes
  const task = await (first?.durable === true ? findTask(api, run, first.name, {}) : findTask(api, run, name, selector))
  return first?.durable === true
    ? { name, path: selector.path ?? String(selector.index ?? ""), task }
    : { name: task.name, path: task.path, task }
}

export const externalSignalRoutes = [
  ...(["approve", "reject"] as const).map((verb) =>
    route({
      method: "POST",
      path: `/runs/{id}/tasks/{name}/${verb}`,
      summary:
        verb === "approve"
          ? "Approve a task, or a step of a durable function, that waits for approval"
          : "Reject a task that waits for approval, which fails it, or a step of a durable function",
      scope: "trigger",
      params: approvalParams,
      body: { schema: approvalBody },
      responses: { 200: { description: "The task", schema: task } },
      errors: [409],
      audit: `task.${verb}`,
      async handle({ params, body, caller, api }) {
        const found = await findRun(api, params.id)
        const { name, path, task: answered } = await findAnswered(api, found, params.name, body)
        const comment = body.comment ?? null
        if (comment !== null) describeAction({ details: comment })
        const approval = { approved: verb === "approve", comment, by: caller.name }
        await api.externalSignals.approval({ runId: found.id, name, path, ...approval })
        const finished = await findTask(api, found, answered.name, { path: answered.path })
        return { status: 200, body: await taskDetails(api, found, finished) }
      },
    }),
  ),
  route({
    method: "POST",
    path: "/callbacks/{token}",
    summary: "Finish a task that deferred its work; the token (ORK_CALLBACK_URL) works once",
    scope: null,
    params: callbackParams,
    body: { schema: callbackBody },
    responses: { 204: { description: "The callback was accepted" } },
    errors: [404, 409, 429],
    audit: "task.callback",
    async admit({ params, request, api }) {
      const known = await api.externalSignals.isCallbackToken(params.token)
      api.auth.checkProof(request.ip, known ? null : notFound("there is no such callback"))
    },
    async handle({ params, body, api }) {
      const { status, error } = body
      describeAction({ target: "callback", details: status ?? "success" })
      const signal = { status: status ?? "success", ...(error !== undefined && { error }) } as const
      const output = body.output === undefined ? {} : { output: body.output as Json }
      await api.externalSignals.callback(params.token, { ...signal, ...output })
      return { status: 204 }
    },
  }),
]
