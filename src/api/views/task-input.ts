// Reconstructs the inputs of tasks, which are not stored: the item, the upstream outputs by name and the task's own `input`, in this order
// of precedence, last wins. Expressions of unbounded cost are not evaluated here: the task's own `input` is then left out.

import type { Output } from "../../core/model/change.ts"
import {
  evaluate,
  expressionsOf,
  ExpressionError,
  isBounded,
  render,
  type ExpressionScope,
} from "../../core/expressions/expressions.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import { lastIndex, enclosingPath, shortName } from "../../core/model/task-path.ts"
import { logicalDay } from "../../core/time/schedule.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import type { RunRow, Store, TaskRow } from "../../store/contract/store.ts"

/** Size in bytes up to which an output is shown. Of a larger output only the key is shown. */
const MAX_SHOWN_BYTES = 256 * 1024
/** Size in bytes up to which a list shows an output: a list contains an upstream output once for each task that reads it. */
const MAX_LISTED_BYTES = 16 * 1024

/** Size of the outputs that are kept for further tasks of the run. */
const MAX_CACHED_BYTES = 8 * 1024 * 1024
/** An output in its row counts as this size, which it rarely exceeds. */
const CACHED_INLINE_BYTES = 4 * 1024

export interface InputSource {
  store: Pick<Store, "getTask">
  objects: Pick<ObjectStore, "get">
}

interface ReadTask {
  row: TaskRow | null
  output: Json
}

/** The inputs of tasks of one run. Reads each upstream task once. */
export class TaskInputs {
  readonly #source: InputSource
  readonly #run: RunRow
  readonly #workflow: CompiledWorkflow
  readonly #listed: boolean
  readonly #tasks = new Map<string, Promise<ReadTask>>()
  /** Size of the outputs in `#tasks`. */
  #cachedBytes = 0

  /** `listed`: the inputs are entries of a list, so that large outputs are left out. */
  constructor(source: InputSource, run: RunRow, workflow: CompiledWorkflow, { listed }: { listed: boolean }) {
    this.#source = source
    this.#run = run
    this.#workflow = workflow
    this.#listed = listed
  }

  /** Returns null when the task has not started. */
  async of(task: TaskRow): Promise<Json> {
    if (task.attempt === 0) return null
    const node = this.#workflow.nodes[task.node]!
    const tasks = await this.#upstreamTasks(task, node)
    const input: JsonObject = node.fan?.foreach === undefined ? {} : { item: task.item }
    for (const index of node.upstream) {
      const name = shortName(this.#workflow.nodes[index]!)
      input[name] = this.#shown(tasks[name]?.output ?? null)
    }
    const scope = { ...this.#runScope(task, node), ...(await this.#parentScope(task, node)), tasks }
    for (const [name, value] of Object.entries(ownInput(node, scope))) input[name] = this.#shown(value)
    return input
  }

  /** Replaces a value that is too large for a list. */
  #shown(value: Json): Json {
    if (!this.#listed || typeof value !== "object" || value === null) return value
    const bytes = Buffer.byteLength(JSON.stringify(value))
    return bytes <= MAX_LISTED_BYTES ? value : { omitted_bytes: bytes }
  }

  async #upstreamTasks(task: TaskRow, node: Node): Promise<ExpressionScope["tasks"]> {
    const found = await Promise.all(
      [...new Set([...node.upstream, ...node.reads])].map(async (index) => {
        const upstream = this.#workflow.nodes[index]!
        const { row, output } = await this.#read(upstream.name, enclosingPath(this.#workflow, index, task.path))
        return [shortName(upstream), { status: row?.status ?? "pending", output }] as const
      }),
    )
    return Object.fromEntries(found)
  }

  #read(name: string, path: string): Promise<ReadTask> {
    const key = `${name}/${path}`
    const cached = this.#tasks.get(key)
    if (cached !== undefined) return cached
    if (this.#cachedBytes > MAX_CACHED_BYTES) {
      this.#tasks.clear()
      this.#cachedBytes = 0
    }
    const reading = this.#readTask(name, path)
    this.#tasks.set(key, reading)
    return reading
  }

  async #readTask(name: string, path: string): Promise<ReadTask> {
    const row = await this.#source.store.getTask({ runId: this.#run.id, name, path })
    return { row, output: await this.#outputJson(row?.output ?? null) }
  }

  async #parentScope(task: TaskRow, node: Node): Promise<Pick<ExpressionScope, "parent">> {
    if (node.parent === undefined) return {}
    const group = this.#workflow.nodes[node.parent]!
    const path = enclosingPath(this.#workflow, task.node, task.path)
    const { row } = await this.#read(group.name, path)
    return { parent: { index: lastIndex(path), ...(group.fan?.foreach !== undefined && { item: row?.item ?? null }) } }
  }

  #runScope(task: TaskRow, node: Node): Omit<ExpressionScope, "tasks" | "parent"> {
    const run = this.#run
    const logicalDate = run.logicalDate ?? run.createdAt
    return {
      params: run.params,
      run: {
        id: run.id,
        workflow: run.workflow,
        logical_date: logicalDate,
        date: logicalDay(logicalDate, null, this.#workflow),
        trigger: run.trigger,
        cause: run.cause,
        status: run.status,
        error: run.error,
      },
      ...(node.fan !== undefined && { index: lastIndex(task.path) }),
      ...(node.fan?.foreach !== undefined && { item: task.item }),
    }
  }

  async #outputJson(output: Output | null): Promise<Json> {
    if (output === null) return null
    if ("inline" in output) {
      this.#cachedBytes += CACHED_INLINE_BYTES
      return output.inline
    }
    const isShown = output.bytes <= (this.#listed ? MAX_LISTED_BYTES : MAX_SHOWN_BYTES)
    const bytes = isShown ? await this.#source.objects.get(output.key) : null
    this.#cachedBytes += bytes?.byteLength ?? 0
    if (bytes === null) return { output_object: { key: output.key, bytes: output.bytes } }
    return JSON.parse(Buffer.from(bytes).toString("utf8")) as Json
  }
}

/** Evaluates the task's own `input`. Returns no fields when an expression is unbounded or fails. */
const ownInput = ({ input }: Node, scope: ExpressionScope): JsonObject => {
  if (input === undefined || !expressionsOf(input).every(isBounded)) return {}
  try {
    return render(input, scope, evaluate) as JsonObject
  } catch (error) {
    if (error instanceof ExpressionError) return {}
    throw error
  }
}
