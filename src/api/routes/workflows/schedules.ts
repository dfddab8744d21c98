// Schedules of all deployed workflows, with their next and skipped ticks; and schedules of functions of programs.

import type { z } from "zod"
import { functionWorkflow } from "../../../core/model/function-workflow.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import { policyProblems } from "../../../core/rules/access/policy.ts"
import { OPEN_POLICY } from "../../../core/settings/policy.ts"
import { cronProblem, isTimezone } from "../../../core/time/cron.ts"
import type { JsonObject } from "../../../core/values/json.ts"
import { withoutSource } from "../../../engine/services/deploy.ts"
import { durationMs } from "../../../protocol/api/common.ts"
import { functionSchedule, scheduleList, scheduleQuery, workflow, workflowParams } from "../../../protocol/api/workflows.ts"
import { describeAction } from "../../../store/contract/audit-scope.ts"
import type { StoredVersion } from "../../../store/contract/store.ts"
import { checkDefinition } from "../../http/workflow-limits.ts"
import { retryPolicyOf } from "../jobs/new-job.ts"
import { workflowBody } from "./workflows.ts"
import { numberCursor, pageOf, parseNumberCursor } from "../../http/cursors.ts"
import { conflict, invalid, invalidField } from "../../shared/errors.ts"
import { listLimits } from "../../auth/auth.ts"
import { route } from "../../http/route.ts"
import { scheduleShape } from "../../views/service-json.ts"

/** Bounds the time of a request, which computes the ticks. */
const MAX_TICKS = 4000
const SKIPPED_TICKS = 5

type FunctionScheduleBody = z.output<typeof functionSchedule>

/** Returns the workflow of a schedule of a function, as a program has it that schedules the function itself. */
const scheduledFunction = (name: string, body: FunctionScheduleBody): CompiledWorkflow => {
  const { cron, timezone, catchup, overlap, params, durable, queue, priority, retry, timeout } = body
  const problem = cronProblem(cron)
  if (problem !== null) throw invalidField("cron", problem)
  if (!isTimezone(timezone)) throw invalidField("timezone", "must be an IANA time zone such as Europe/Berlin")
  const workflow = functionWorkflow(name, {
    kind: durable ? "workflow" : "task",
    functionName: body.function,
    queue,
    priority,
    retry: retryPolicyOf(retry),
    timeoutMs: timeout === undefined || timeout === null ? null : durationMs(timeout),
  })
  return { ...workflow, schedules: [{ cron, timezone, catchup, overlap, params: { lit: params as JsonObject } }] }
}

export const scheduleRoutes = [
  route({
    method: "PUT",
    path: "/schedules/{name}",
    summary: "Create or change a schedule of a function of a program",
    scope: "author",
    concerns: "definition",
    params: workflowParams,
    body: { schema: functionSchedule, required: true },
    responses: {
      200: { description: "The workflow of the schedule, changed", schema: workflow },
      201: { description: "The workflow of the new schedule", schema: workflow },
    },
    errors: [409],
    audit: "workflow.deploy",
    async handle({ params: { name }, body, caller, api }) {
      const scheduled = scheduledFunction(name, body)
      const forbidden = policyProblems(api.config.policy ?? OPEN_POLICY, scheduled)
      if (forbidden.length > 0) throw invalid(forbidden)
      await checkDefinition(api, caller, scheduled)
      const found = await api.store.getWorkflow(name)
      if (found !== null && found.compiled.schedules.length === 0)
        throw conflict(`${name} is the name of a workflow; give its schedule another name, such as ${name}-daily`)
      describeAction({ target: name, details: (stored: StoredVersion) => `version ${stored.version}` })
      const { outcome } = await api.workflows.deploy(withoutSource(scheduled))
      return { status: outcome === "new" ? 201 : 200, body: await workflowBody(api, name) }
    },
  }),
  route({
    method: "GET",
    path: "/schedules",
    summary: "List the schedules with their next ticks, and the last ticks that created no run",
    scope: "read",
    concerns: "list",
    query: scheduleQuery,
    responses: { 200: { description: "A page of schedules", schema: scheduleList } },
    async handle({ query: { limit, cursor, workflow, ticks }, caller, api }) {
      if (ticks * limit > MAX_TICKS) {
        throw invalidField("ticks", `must be at most ${Math.floor(MAX_TICKS / limit)} with a limit of ${limit}`)
      }
      const rows = await api.store.listSchedules({
        limit: limit + 1,
        ...listLimits(caller),
        ...(workflow !== undefined && { workflow }),
        ...(cursor !== undefined && { after: parseNumberCursor("s", cursor) }),
      })
      const skipped = new Map(
        await Promise.all(rows.map(async (row) => [row.id, await api.store.listSkippedTicks(row, SKIPPED_TICKS)] as const)),
      )
      const now = api.clock.now()
      return {
        status: 200,
        body: pageOf(
          rows,
          limit,
          (row) => scheduleShape(row, skipped.get(row.id)!, { now, ticks }),
          (row) => numberCursor("s", row.id),
        ),
      }
    },
  }),
]
