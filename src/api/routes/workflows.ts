// Workflows: deploy, look at, trigger, pause. A definition may name files only when their bundle came before it.

import type { Problem } from "../../core/model/problems.ts"
import type { CompiledWorkflow } from "../../core/model/workflow.ts"
import { missingFiles, withBundle } from "../../engine/services/bundle-files.ts"
import type { JsonObject } from "../../core/model/json.ts"
import { bundleKey } from "../../objects/bundles.ts"
import { readTar } from "../../objects/tar.ts"
import { newRun, run } from "../../protocol/api/runs.ts"
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
} from "../../protocol/api/workflows.ts"
import { parseDefinition, type ParsedDefinition } from "../../definition/parse.ts"
import { runShape } from "../../protocol/api/shapes.ts"
import type { WorkflowRow } from "../../store/contract/catalog.ts"
import { nameCursor, numberCursor, pageOf, parseNameCursor, parseNumberCursor } from "../http/cursors.ts"
import { conflict, invalid, invalidField, notFound } from "../http/errors.ts"
import type { Api } from "../http/ports.ts"
import { route, type TextBody } from "../http/route.ts"
import { versionShape, workflowShape, workflowSummaryShape } from "../views/shapes.ts"

const TAG = "workflows"
const LAST_RUNS = 20

const DEFINITION = {
  text: ["application/json", "application/yaml"],
  example: "name: hello\ntasks:\n  hello:\n    command: echo hello\n",
} as const

export const findWorkflow = async (api: Api, name: string): Promise<WorkflowRow> => {
  const found = await api.store.getWorkflow(name)
  if (found === null) throw notFound(`there is no workflow ${name}; GET /workflows lists those that there are`)
  return found
}

const fileProblems = (compiled: CompiledWorkflow): Problem[] => [
  ...compiled.nodes
    .filter((node) => node.file !== undefined)
    .map((node) => ({
      path: `tasks.${node.name}.file`,
      message: "a definition sent over the API has no files with it; use `ork deploy`",
    })),
  ...(compiled.include.length > 0
    ? [{ path: "include", message: "a definition sent over the API has no files with it; use `ork deploy`" }]
    : []),
]

/** `bundle`: the files that it comes with. */
const parse = ({ config: { profiles = {} } }: Api, { text, type }: TextBody, bundle: string | undefined): ParsedDefinition => {
  const parsed = parseDefinition(text, { format: type === "application/json" ? "json" : "yaml", profiles })
  if (!parsed.ok) return parsed
  if (bundle !== undefined) return withBundle(parsed, bundle)
  const files = fileProblems(parsed.workflow)
  return files.length > 0 ? { ok: false, problems: files } : parsed
}

/** Read whole before the version names it: were it tidied away in the same moment, it is put back after. */
const readBundle = async ({ objects }: Api, hash: string): Promise<Uint8Array> => {
  const bytes = await objects.get(bundleKey(hash))
  if (bytes === null) throw invalidField("bundle", "is not stored here; send it first with PUT /bundles/{hash}")
  return bytes
}

export const workflowRoutes = [
  route({
    method: "GET",
    path: "/workflows",
    tag: TAG,
    summary: "Deployed workflows by name, with their last runs and next tick",
    scope: "read",
    query: workflowQuery,
    responses: { 200: { description: "A page of workflows", schema: workflowList } },
    async handle({ query: { limit, cursor, search, tag }, api }) {
      const rows = await api.store.listWorkflows({
        limit: limit + 1,
        runs: LAST_RUNS,
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
    tag: TAG,
    summary: "Deploys a definition; with If-None-Match: * only under a new name",
    scope: "admin",
    query: definitionQuery,
    body: DEFINITION,
    responses: {
      200: { description: "The same as before, or a new version", schema: workflow },
      201: { description: "New", schema: workflow },
    },
    errors: [409],
    audit: "workflow.deploy",
    async handle({ body, query: { bundle }, request, api }) {
      const parsed = parse(api, body, bundle)
      if (!parsed.ok) throw invalid(parsed.problems)
      const { name } = parsed.workflow
      const files = bundle === undefined ? null : await readBundle(api, bundle)
      const missing = files === null ? [] : missingFiles(parsed.workflow, new Set(readTar(files).map(({ path }) => path)))
      if (missing.length > 0) throw invalid(missing)
      const stored = await api.workflows.deploy(parsed, {
        bundle: files === null ? null : { hash: bundle!, bytes: Buffer.from(files) },
        ifNew: request.headers["if-none-match"] === "*",
      })
      if (stored.outcome === "exists") throw conflict(`there is a workflow ${name} already`)
      return {
        status: stored.outcome === "new" ? 201 : 200,
        body: workflowShape(await findWorkflow(api, name)),
        headers: { location: `/api/v1/workflows/${name}` },
        target: name,
        details: `version ${stored.version}`,
      }
    },
  }),
  route({
    method: "POST",
    path: "/workflows/validate",
    tag: TAG,
    summary: "Compiles a definition and tells every problem; stores nothing",
    scope: "read",
    query: definitionQuery,
    body: DEFINITION,
    responses: { 200: { description: "What is wrong with it, if anything", schema: validation } },
    handle({ body, query: { bundle }, api }) {
      const parsed = parse(api, body, bundle)
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
    tag: TAG,
    summary: "A workflow with its definition, params and graph",
    scope: "read",
    params: workflowParams,
    responses: { 200: { description: "The workflow", schema: workflow } },
    async handle({ params, api }) {
      return { status: 200, body: workflowShape(await findWorkflow(api, params.name)) }
    },
  }),
  route({
    method: "DELETE",
    path: "/workflows/{name}",
    tag: TAG,
    summary: "Removes a workflow and its schedules; its runs stay",
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
    tag: TAG,
    summary: "The versions of a workflow, newest first",
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
    tag: TAG,
    summary: "Triggers a run; the same idempotency key (or Idempotency-Key header) again gives the first run",
    scope: "trigger",
    params: workflowParams,
    body: { schema: newRun },
    responses: {
      200: { description: "The run that the idempotency key had made before", schema: run },
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
        idempotencyKey: body.idempotency_key ?? keyHeader(request.headers["idempotency-key"]),
      })
      if ("problems" in triggered) throw invalid(triggered.problems)
      const { run: made, created } = triggered
      return {
        status: created ? 201 : 200,
        body: runShape(made),
        headers: { location: `/api/v1/runs/${made.id}` },
        target: made.id,
      }
    },
  }),
  ...(["pause", "resume"] as const).map((verb) =>
    route({
      method: "POST",
      path: `/workflows/{name}/${verb}`,
      tag: TAG,
      summary: verb === "pause" ? "Lets the schedules of a workflow rest" : "Lets them go on",
      scope: "admin",
      params: workflowParams,
      responses: { 200: { description: "The workflow", schema: workflow } },
      audit: `workflow.${verb}`,
      async handle({ params: { name }, api }) {
        await api.workflows.setPaused(name, verb === "pause")
        return { status: 200, body: workflowShape(await findWorkflow(api, name)) }
      },
    }),
  ),
  route({
    method: "POST",
    path: "/workflows/{name}/backfill",
    tag: TAG,
    summary: "One run for each tick of the schedule in a range; with `plan` only the ticks",
    scope: "trigger",
    params: workflowParams,
    body: { schema: backfillBody, required: true },
    responses: { 200: { description: "The ticks, and the runs that were made", schema: backfill } },
    errors: [409],
    audit: "workflow.backfill",
    async handle({ params, body, api }) {
      if (body.to <= body.from) throw invalidField("to", "must be later than from")
      const made = await api.workflows.backfill({
        workflow: params.name,
        from: body.from,
        to: body.to,
        plan: body.plan ?? false,
        maxActiveRuns: body.max_active_runs ?? null,
      })
      return { status: 200, body: made, details: `${made.runs.length} runs of ${made.ticks.length} ticks` }
    },
  }),
]

const keyHeader = (header: string | string[] | undefined): string | null => {
  if (typeof header !== "string" || header === "") return null
  if (header.length > 255) throw invalidField("Idempotency-Key", "must be at most 255 characters")
  return header
}
