// Workflows: deploy, validate, get, remove, trigger, pause, backfill. A definition may name files only if their bundle was sent before.

import { namedFiles } from "../../../core/model/named-files.ts"
import type { Problem } from "../../../core/model/problems.ts"
import { lastInstantOf, startOf } from "../../../core/time/schedule.ts"
import { policyProblems } from "../../../core/rules/access/policy.ts"
import { OPEN_POLICY } from "../../../core/settings/policy.ts"
import type { CompiledWorkflow } from "../../../core/model/workflow.ts"
import { missingFiles, withBundle } from "../../../engine/services/bundle-files.ts"
import type { JsonObject } from "../../../core/values/json.ts"
import { type Bundle, bundleKey } from "../../../objects/bundles/bundles.ts"
import { readTar } from "../../../objects/bundles/tar.ts"
import { newRun, run } from "../../../protocol/api/runs.ts"
import {
  backfill,
  backfillBody,
  definitionQuery,
  pageQuery,
  validation,
  versionList,
  workflow,
  workflowList,
  workflowParams,
  workflowQuery,
} from "../../../protocol/api/workflows.ts"
import type { ParsedDefinition } from "../../../definition/parse.ts"
import { runShape } from "../../../engine/run-json.ts"
import type { WorkflowRow } from "../../../store/contract/catalog.ts"
import { nameCursor, numberCursor, pageOf, parseNameCursor, parseNumberCursor } from "../../http/cursors.ts"
import { conflict, invalid, invalidField, noWorkflow } from "../../shared/errors.ts"
import type { Api } from "../../http/ports.ts"
import type { StoredVersion } from "../../../store/contract/store.ts"
import { listLimits } from "../../auth/auth.ts"
import { checkDefinition } from "../../http/workflow-limits.ts"
import { describeAction } from "../../../store/contract/audit-scope.ts"
import { route, type TextBody } from "../../http/route.ts"
import { versionShape, workflowShape, workflowSummaryShape } from "../../views/service-json.ts"

/** Latest runs that the list shows of each workflow. */
const LATEST_RUNS = 20

const DEFINITION = {
  text: ["application/json", "application/yaml"],
  example: "name: hello\ntasks:\n  hello:\n    command: echo hello\n",
} as const

export const findWorkflow = async (api: Api, name: string): Promise<WorkflowRow> => {
  const found = await api.store.getWorkflow(name)
  if (found === null) throw noWorkflow(name)
  return found
}

export const workflowBody = async (api: Api, name: string): Promise<ReturnType<typeof workflowShape>> =>
  workflowShape(await findWorkflow(api, name), await api.store.listTriggers(name))

/** Returns a problem for every file that a definition without a bundle names. */
const fileProblems = ({ nodes, include }: CompiledWorkflow): Problem[] => {
  const paths = nodes.flatMap((node) => namedFiles(node).map(({ field }) => `tasks.${node.name}.${field}`))
  if (include.length > 0) paths.push("include")
  return paths.map((path) => ({ path, message: "a definition without a bundle has no files; use `ork deploy`" }))
}

/** Parses and compiles a definition. `bundle` is the hash of the bundle with its files. */
const parse = async (
  { config: { profiles = {}, policy = OPEN_POLICY }, workflows }: Api,
  { text, type }: TextBody,
  bundle: string | undefined,
): Promise<ParsedDefinition> => {
  const parsed = await workflows.parse(text, { format: type === "application/json" ? "json" : "yaml", profiles })
  if (!parsed.ok) return parsed
  const forbidden = policyProblems(policy, parsed.workflow)
  if (forbidden.length > 0) return { ok: false, problems: forbidden }
  if (bundle !== undefined) return withBundle(parsed, bundle)
  const files = fileProblems(parsed.workflow)
  return files.length > 0 ? { ok: false, problems: files } : parsed
}

/** Reads the bundle of a definition and checks that it has the files that the definition names. */
const readBundle = async ({ objects }: Api, hash: string, workflow: CompiledWorkflow): Promise<Bundle> => {
  const bytes = await objects.get(bundleKey(hash))
  if (bytes === null) throw invalidField("bundle", "is not stored; send it first with PUT /bundles/{hash}")
  const missing = missingFiles(workflow, new Set(readTar(bytes).map(({ path }) => path)))
  if (missing.length > 0) throw invalid(missing)
  return { hash, bytes: Buffer.from(bytes) }
}

const idempotencyKey = (header: string | string[] | undefined): string | null => {
  if (typeof header !== "string" || header === "") return null
  if (header.length > 255) throw invalidField("Idempotency-Key", "must be at most 255 characters")
  return header
}

export const workflowRoutes = [
  route({
    method: "GET",
    path: "/workflows",
    summary: "List the deployed workflows by name, with their latest runs and next tick",
    scope: "read",
    concerns: "list",
    query: workflowQuery,
    responses: { 200: { description: "A page of workflows", schema: workflowList } },
    async handle({ query: { limit, cursor, search, tag }, caller, api }) {
      const rows = await api.store.listWorkflows({
        limit: limit + 1,
        ...listLimits(caller),
        runs: LATEST_RUNS,
        ...(cursor !== undefined && { after: parseNameCursor("w", cursor) }),
        ...(search !== undefined && { search }),
        ...(tag !== undefined && { tag }),
      })
      return { status: 200, body: pageOf(rows, limit, workflowSummaryShape, (row) => nameCursor("w", row.workflow.name)) }
    },
  }),
  route({
    method: "POST",
    path: "/workflows",
    summary: "Deploy a definition; with If-None-Match: * only under a new name",
    scope: "author",
    concerns: "definition",
    query: definitionQuery,
    body: DEFINITION,
    responses: {
      200: { description: "The workflow, unchanged or with a new version", schema: workflow },
      201: { description: "The new workflow", schema: workflow },
    },
    errors: [409],
    audit: "workflow.deploy",
    async handle({ body, query: { bundle }, request, caller, api }) {
      const parsed = await parse(api, body, bundle)
      if (!parsed.ok) throw invalid(parsed.problems)
      await checkDefinition(api, caller, parsed.workflow)
      const { name } = parsed.workflow
      describeAction({
        target: name,
        details: (stored: StoredVersion) => `version ${stored.version}`,
        made: (stored: StoredVersion) => stored.outcome !== "exists",
      })
      const { outcome } = await api.workflows.deploy(parsed, {
        bundle: bundle === undefined ? null : await readBundle(api, bundle, parsed.workflow),
        ifNew: request.headers["if-none-match"] === "*",
      })
      if (outcome === "exists") throw conflict(`the workflow ${name} already exists`)
      return {
        status: outcome === "new" ? 201 : 200,
        body: await workflowBody(api, name),
        headers: { location: `/api/v1/workflows/${name}` },
      }
    },
  }),
  route({
    method: "POST",
    path: "/workflows/validate",
    summary: "Validate a definition and return every problem; store nothing",
    scope: "author",
    concerns: "caller",
    query: definitionQuery,
    body: DEFINITION,
    responses: { 200: { description: "The problems of the definition, if any", schema: validation } },
    async handle({ body, query: { bundle }, api }) {
      const parsed = await parse(api, body, bundle)
      return {
        status: 200,
        body: parsed.ok
          ? { valid: true, problems: [], name: parsed.workflow.name, tasks: parsed.workflow.nodes.map((node) => node.name) }
          : { valid: false, problems: parsed.problems, name: null, tasks: [] },
      }
    },
  }),
  route({
    method: "GET",
    path: "/workflows/{name}",
    summary: "Get a workflow with its definition, params and graph",
    scope: "read",
    params: workflowParams,
    responses: { 200: { description: "The workflow", schema: workflow } },
    async handle({ params, api }) {
      return { status: 200, body: await workflowBody(api, params.name) }
    },
  }),
  route({
    method: "DELETE",
    path: "/workflows/{name}",
    summary: "Remove a workflow with its schedules and triggers; its runs stay",
    scope: "admin",
    params: workflowParams,
    responses: { 204: { description: "Removed" } },
    audit: "workflow.remove",
    async handle({ params, api }) {
      await api.workflows.remove(params.name)
      return { status: 204 }
    },
  }),
  route({
    method: "GET",
    path: "/workflows/{name}/versions",
    summary: "List the versions of a workflow, newest first",
    scope: "read",
    params: workflowParams,
    query: pageQuery,
    responses: { 200: { description: "A page of versions", schema: versionList } },
    async handle({ params: { name }, query: { limit, cursor }, api }) {
      await findWorkflow(api, name)
      const before = cursor === undefined ? {} : { before: parseNumberCursor("v", cursor) }
      const rows = await api.store.listVersions({ name, limit: limit + 1, ...before })
      return { status: 200, body: pageOf(rows, limit, versionShape, (row) => numberCursor("v", row.version)) }
    },
  }),
  route({
    method: "POST",
    path: "/workflows/{name}/runs",
    aliases: ["/workflows/{name}/run"],
    summary: "Trigger a run; a repeated idempotency key (or Idempotency-Key header) returns the first run",
    scope: "trigger",
    params: workflowParams,
    body: { schema: newRun },
    responses: {
      200: { description: "The run that the idempotency key created before", schema: run },
      201: { description: "The new run", schema: run },
    },
    audit: "run.create",
    async handle({ params, body, request, api }) {
      const found = await findWorkflow(api, params.name)
      const triggered = await api.runs.trigger({
        workflow: found,
        trigger: "manual",
        params: (body.params ?? {}) as JsonObject,
        priority: body.priority ?? null,
        logicalDate: body.logical_date ?? null,
        idempotencyKey: body.idempotency_key ?? idempotencyKey(request.headers["idempotency-key"]),
      })
      if ("problems" in triggered) throw invalid(triggered.problems)
      const { run: triggeredRun, created } = triggered
      return {
        status: created ? 201 : 200,
        body: runShape(triggeredRun),
        headers: { location: `/api/v1/runs/${triggeredRun.id}` },
      }
    },
  }),
  ...(["pause", "resume"] as const).map((verb) =>
    route({
      method: "POST",
      path: `/workflows/{name}/${verb}`,
      summary:
        verb === "pause" ? "Pause the workflow's schedules and triggers" : "Resume the workflow's schedules and triggers",
      scope: "admin",
      params: workflowParams,
      responses: { 200: { description: "The workflow", schema: workflow } },
      audit: `workflow.${verb}`,
      async handle({ params: { name }, api }) {
        await api.workflows.setPaused(name, verb === "pause")
        return { status: 200, body: await workflowBody(api, name) }
      },
    }),
  ),
  route({
    method: "POST",
    path: "/workflows/{name}/backfill",
    summary: "Create one run for each tick of the schedule in a range; with `plan`, only list the ticks",
    scope: "trigger",
    params: workflowParams,
    body: { schema: backfillBody, required: true },
    responses: { 200: { description: "The ticks and the created runs", schema: backfill } },
    errors: [409],
    audit: "workflow.backfill",
    async handle({ params, body, api }) {
      if (lastInstantOf(body.to, "UTC") < startOf(body.from, "UTC")) throw invalidField("to", "must not be before from")
      describeAction({ details: `${body.from} to ${body.to}` })
      const { ticks, runs } = await api.workflows.backfill({
        workflow: params.name,
        from: body.from,
        to: body.to,
        plan: body.plan ?? false,
        maxActiveRuns: body.max_active_runs ?? null,
      })
      return { status: 200, body: { ticks, runs }, ...(runs.length === 0 && { audit: false }) }
    },
  }),
]
