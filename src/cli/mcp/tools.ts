// The tools of `ork mcp`. Each makes the requests that the command of the same name makes, with the same client and key: the server
// decides what the key may do.

import { z } from "zod"
import { findServerRun } from "../target/find-run.ts"
import { firstItems } from "../target/pages.ts"
import { omitUndefined } from "../../core/values/omit-undefined.ts"
import { RUN_STATUSES } from "../../core/model/status.ts"
import type { Client, KeyScope, LogLine, Run, Task } from "../../protocol/client/client.ts"

/** Tasks and lines of a log that one reply contains, to fit into the context of a model. */
const MAX_TASKS = 200
const MAX_LINES = 1000
const DEFAULT_LINES = 100

export interface Tool {
  name: string
  description: string
  /** Scope that a key needs. */
  scope: Extract<KeyScope, "read" | "trigger">
  input: z.ZodRawShape
  call(client: Client, input: never): Promise<unknown>
}

const defineTool = <Shape extends z.ZodRawShape>(
  tool: Omit<Tool, "input" | "call"> & {
    input: Shape
    call(client: Client, input: z.output<z.ZodObject<Shape>>): Promise<unknown>
  },
): Tool => tool

const run = z.string().describe("Id, short id, WORKFLOW#12, a workflow (its latest run), or latest")
const path = z.string().optional().describe("Instance of a fan-out: 3, or 1.2 inside groups")
const limit = z.int().min(1).max(100).default(20)

export const TOOLS: readonly Tool[] = [
  defineTool({
    name: "list",
    description: "List the deployed workflows, or runs, newest first",
    scope: "read",
    input: {
      what: z.enum(["workflows", "runs"]),
      workflow: z.string().optional().describe("Only runs of this workflow"),
      status: z.enum(RUN_STATUSES).optional().describe("Only runs with this status"),
      limit,
    },
    async call(client, { what, workflow, status, limit: most }) {
      if (what === "workflows") return firstItems((page) => client.listWorkflows(page), most)
      return firstItems((page) => client.listRuns(omitUndefined({ workflow, status, ...page })), most)
    },
  }),
  defineTool({
    name: "show",
    description: "Show a run with its tasks: status, attempts, exit code, error and output",
    scope: "read",
    input: { run, status: z.string().optional().describe("Only tasks with this status, such as failed") },
    async call(client, { run: text, status }) {
      const found = await findServerRun(client, text)
      const tasks = await firstItems((page) => client.listTasks(found.id, page), MAX_TASKS)
      return { ...found, task_list: tasks.filter((task) => status === undefined || task.status === status).map(summaryOf) }
    },
  }),
  defineTool({
    name: "explain",
    description: "Explain in one sentence per task why it waits, failed or was skipped",
    scope: "read",
    input: { run, task: z.string().optional() },
    call: async (client, { run: text, task }) => client.explain((await findServerRun(client, text)).id, task),
  }),
  defineTool({
    name: "logs",
    description: "Read the last lines of the log of a task",
    scope: "read",
    input: {
      run,
      task: z.string(),
      path,
      attempt: z.int().min(1).optional().describe("Default: the latest"),
      lines: z.int().min(1).max(MAX_LINES).default(DEFAULT_LINES),
    },
    async call(client, { run: text, task, path: instance, attempt, lines }) {
      const { id } = await findServerRun(client, text)
      const log = client.readLogLines(omitUndefined({ runId: id, task, path: instance }), omitUndefined({ attempt }))
      return (await lastOf(log, lines)).map(({ line }) => line).join("\n")
    },
  }),
  defineTool({
    name: "trigger",
    description: "Start a run of a deployed workflow",
    scope: "trigger",
    input: {
      workflow: z.string(),
      params: z.record(z.string(), z.unknown()).optional(),
      idempotency_key: z.string().optional().describe("A repeated key returns the first run"),
    },
    call: async (client, { workflow, ...body }): Promise<Run> => (await client.trigger(workflow, omitUndefined(body))).run,
  }),
  defineTool({
    name: "retry",
    description:
      "Run the failed, skipped and cancelled tasks of a run again; or one task, or one instance, with everything downstream",
    scope: "trigger",
    input: { run, task: z.string().optional(), path },
    async call(client, { run: text, task, path: instance }) {
      const { id } = await findServerRun(client, text)
      if (task === undefined) return client.retryRun(id)
      return instance === undefined
        ? client.retryRun(id, { from: task })
        : client.retryTask({ runId: id, task, path: instance })
    },
  }),
]

const summaryOf = ({
  name,
  path: instance,
  label,
  status,
  attempt,
  exit_code,
  error,
  output,
  started_at,
  finished_at,
}: Task) => ({
  name,
  ...(instance !== "" && { path: instance, label }),
  status,
  attempt,
  exit_code,
  error,
  output,
  started_at,
  finished_at,
})

const lastOf = async (lines: AsyncIterable<LogLine>, count: number): Promise<LogLine[]> => {
  const last: LogLine[] = []
  for await (const line of lines) {
    last.push(line)
    if (last.length > count) last.shift()
  }
  return last
}
