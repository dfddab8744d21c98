// Durable functions: the recorded steps of a run, and signals to it.

import type { z } from "zod"
import { approvalRequestOf, childOf } from "../../../core/model/function-signals.ts"
import { isObject, type Json } from "../../../core/values/json.ts"
import { iso } from "../../../core/model/ports.ts"
import { signalBody, signalParams, signalSent, type step, stepList } from "../../../protocol/api/functions.ts"
import { runParams } from "../../../protocol/api/runs.ts"
import { describeAction } from "../../../store/contract/audit-scope.ts"
import type { Step } from "../../../store/contract/functions.ts"
import { conflict, notFound } from "../../shared/errors.ts"
import { route } from "../../http/route.ts"
import { findRun } from "../../http/find-run.ts"

const stepShape = ({ output, details, startedAt, finishedAt, ...rest }: Step): z.output<typeof step> => {
  const child = childOf(details)
  const approval = approvalRequestOf(details)
  return {
    ...rest,
    output: output !== null && "inline" in output ? output.inline : null,
    output_object: output !== null && "key" in output ? { key: output.key, bytes: output.bytes } : null,
    until: isObject(details) && typeof details["until"] === "number" ? iso(details["until"]) : null,
    child: child?.id ?? null,
    child_kind: child === null ? null : child.kind === "task" ? "job" : "run",
    message: approval?.message ?? null,
    default: approval?.default ?? null,
    started_at: startedAt,
    finished_at: finishedAt,
  }
}

export const functionRoutes = [
  route({
    method: "GET",
    path: "/runs/{id}/steps",
    summary: "List the steps of a durable function in the order in which they began",
    scope: "read",
    params: runParams,
    responses: { 200: { description: "The steps; none for a run of another workflow", schema: stepList } },
    async handle({ params, api }) {
      const run = await findRun(api, params.id)
      return { status: 200, body: { items: (await api.store.listSteps(run.id)).map(stepShape) } }
    },
  }),
  route({
    method: "POST",
    path: "/runs/{id}/signals/{name}",
    summary: "Send a signal to a durable function; one that comes before its wait is kept",
    scope: "trigger",
    params: signalParams,
    body: { schema: signalBody },
    responses: { 200: { description: "The signal was sent, now or before", schema: signalSent } },
    errors: [409],
    audit: "run.signal",
    async handle({ params, body, api }) {
      const run = await findRun(api, params.id)
      const { nodes } = await api.store.getVersion(run.versionId)
      if (nodes[0]?.durable !== true) throw notFound(`run ${run.id} is not a durable function`)
      describeAction({ details: params.name })
      const signal = { runId: run.id, name: params.name, payload: (body.payload ?? null) as Json, key: body.key ?? null }
      const outcome = await api.runs.signal(signal)
      if (outcome === "unknown") throw notFound(`there is no run ${run.id}`)
      if (outcome === "ended") throw conflict(`run ${run.id} has ended and gets no signals`)
      return { status: 200, body: { sent: outcome === "sent" } }
    },
  }),
]
