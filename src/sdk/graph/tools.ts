// The argument of a graph's function: params, and methods that add tasks and return references to their outputs.

import type { TaskDefinition as TaskFields } from "../../core/model/definition.ts"
import { MAIN_TASK } from "../../core/model/function.ts"
import { formatDuration } from "../../core/values/quantities.ts"
import type { RunWhen } from "../../core/model/workflow.ts"
import { type RetryOptions, retryPolicyOf, type TaskDefinition, type WorkflowDefinition } from "../definitions.ts"
import { isDefinition } from "../check-definitions.ts"
import { type Duration, toMs } from "../duration.ts"
import type { GraphDefinition } from "./graph.ts"
import { functionFields, retryFields, workflowFields } from "./call-fields.ts"
import { callerLocation } from "./caller-location.ts"
import type { GraphScope, GraphTask, Recorder } from "./recorder.ts"
import { type Origin, originOf, type Ref, reference, type REFERENCE, type RefOf, type PathSegment, type Value } from "./refs.ts"

/** The functions that a task of a graph can call. */
export type Callable<Input, Output> =
  | TaskDefinition<Input, Output>
  | WorkflowDefinition<Input, Output>
  | GraphDefinition<Input, Output>

/** The input of a task: an object whose values may be references. */
export type CallInput<Input> = unknown extends Input
  ? { readonly [name: string]: unknown } | undefined
  : Input extends object
    ? { readonly [Key in keyof Input]: Value<Input[Key]> } & { readonly [REFERENCE]?: never }
    : never

/** A list, or a reference to one. */
export type AnyList = readonly unknown[] | RefOf<readonly unknown[]>

type ItemOf<List> =
  List extends RefOf<readonly (infer Item)[]> ? Item : List extends readonly (infer Item)[] ? ValueOf<Item> : never

/** The type of a value that a list contains as a reference or as itself. */
type ValueOf<Item> = Item extends RefOf<infer Referred> ? Referred : Item

export interface ConditionOptions {
  description?: string
  /** Tasks that must end first, beside those that the input refers to. */
  after?: readonly RefOf<unknown>[]
  /** The task is skipped unless this is true. */
  if?: RefOf<boolean> | boolean
  /** Which ends of the tasks before it let it run. Default: all_success. */
  runWhen?: RunWhen
  /** 1 to 10. Default: that of the run. */
  priority?: number
  /** Limit of one attempt; of a group, limit of all of it. */
  timeout?: Duration
}

export interface CallOptions extends ConditionOptions {
  /** Default: that of the definition. */
  retry?: RetryOptions
  queue?: string
  labels?: readonly string[]
  /** Reuses the output of an earlier run with the same key. */
  cache?: { key: string | RefOf<string>; ttl?: Duration }
  /** Tasks with the same key run one after the other, in all runs. */
  concurrencyKey?: string | RefOf<string>
}

export interface EachOptions {
  /** Number of items at once. */
  concurrency?: number
  /** Name of an item in lists. */
  label?: string | RefOf<string>
}

interface RunInfo {
  id: string
  workflow: string
  trigger: string
  /** Cause of a triggered run: successful runs of other workflows (`runs`), or a file or object (`path`). */
  cause: { runs: { id: string; workflow: string }[]; path: string }
  /** Day of the logical date. */
  date: string | null
  logical_date: string | null
}

export class GraphTools<Params> {
  /** The params of the run. */
  readonly params: Ref<Params>
  readonly run: Ref<RunInfo>
  readonly #recorder: Recorder
  readonly #scope: GraphScope

  constructor(recorder: Recorder, scope: GraphScope | null) {
    this.#recorder = recorder
    this.#scope = scope ?? recorder.root
    this.params = reference({ kind: "params", segments: [] })
    this.run = reference({ kind: "run", segments: [] })
  }

  /** Adds a task that calls a definition. Returns its output. */
  task<Input, Output>(
    name: string,
    definition: Callable<Input, Output>,
    input: CallInput<NoInfer<Input>>,
    options: CallOptions = {},
  ): Ref<Output> {
    const task = this.#add(name, false)
    this.#call(task, definition, input, options)
    return this.#output(task, resultSegments(definition))
  }

  /** Adds a task for each item of a list. Returns the list of their outputs. */
  each<List extends AnyList, Input, Output>(
    name: string,
    list: List,
    definition: Callable<Input, Output>,
    input: (item: Ref<ItemOf<List>>, index: Ref<number>) => CallInput<NoInfer<Input>>,
    options: CallOptions & EachOptions = {},
  ): Ref<Output[]> {
    const task = this.#add(name, true)
    const fan = this.#fan(task, list, options)
    this.#call(task, definition, input(...this.#instance<ItemOf<List>>(task)), options)
    task.fields = { ...fan, ...task.fields }
    return this.#output(task, eachOf(resultSegments(definition)))
  }

  /** Adds a group: a graph of its own. Returns what its function returns. */
  group<Output>(
    name: string,
    build: (g: GraphTools<Params>) => RefOf<Output> | void,
    options: ConditionOptions = {},
  ): Ref<Output> {
    const task = this.#add(name, false)
    task.fields = this.#conditions(task, options)
    return this.#output(
      task,
      this.#members(task, (g) => build(g)),
    )
  }

  /** Adds a group that runs once for each item of a list. Returns the list of what its function returns. */
  eachGroup<List extends AnyList, Output>(
    name: string,
    list: List,
    build: (g: GraphTools<Params>, item: Ref<ItemOf<List>>, index: Ref<number>) => RefOf<Output> | void,
    options: ConditionOptions & Pick<EachOptions, "concurrency"> = {},
  ): Ref<Output[]> {
    const task = this.#add(name, true)
    task.fields = { ...this.#fan(task, list, options), ...this.#conditions(task, options) }
    const segments = this.#members(task, (g) => build(g, ...this.#instance<ItemOf<List>>(task)))
    return this.#output(task, eachOf(segments))
  }

  /** Adds a task by its fields as a YAML file has them, such as a command, a request or an approval. Returns its output. */
  define<Output = unknown>(
    name: string,
    fields: { readonly [Field in keyof Omit<TaskFields, "depends_on" | "tasks">]: unknown },
    options: ConditionOptions = {},
  ): Ref<Output> {
    const task = this.#add(name, false)
    task.fields = { ...this.#recorder.writeObject(task, fields, name), ...this.#conditions(task, options) }
    return this.#output(task, [])
  }

  /** Returns a text with references and values in it. */
  text(texts: TemplateStringsArray, ...values: Insertable[]): Ref<string> {
    return reference({ kind: "text", parts: partsOf(texts, values, String) })
  }

  /** Returns the value of an expression in CEL, with references and values in it. */
  cel<T>(texts: TemplateStringsArray, ...values: Insertable[]): Ref<T> {
    return reference({ kind: "cel", parts: partsOf(texts, values, JSON.stringify) })
  }

  /** Returns how a task has ended: success, failed, skipped or cancelled. For tasks with `runWhen`. */
  status(task: RefOf<unknown>): Ref<string> {
    return reference({ kind: "status", task: this.#taskOf(task, "") })
  }

  // -- parts -----------------------------------------------------------------------------------------------------------------------

  #add(name: string, isFanned: boolean): GraphTask {
    return this.#recorder.add(this.#scope, { name, isFanned, place: callerLocation(import.meta.url) })
  }

  #output<T>(task: GraphTask, segments: readonly PathSegment[]): Ref<T> {
    return reference({ kind: "output", task, segments })
  }

  #instance<Item>(task: GraphTask): [item: Ref<Item>, index: Ref<number>] {
    return [reference({ kind: "item", task, segments: [] }), reference({ kind: "index", task })]
  }

  #fan(task: GraphTask, list: unknown, { concurrency, label }: EachOptions): TaskFields {
    return {
      foreach: this.#recorder.writeList(task, list),
      ...(concurrency !== undefined && { concurrency }),
      ...(label !== undefined && { label: this.#recorder.writeText(task, label) }),
    }
  }

  /** Builds the tasks of a group. Returns the segments from the output of the group to what its function returns. */
  #members(task: GraphTask, build: (g: GraphTools<Params>) => unknown): readonly PathSegment[] {
    const members: GraphScope = { group: task, tasks: new Map() }
    task.members = members
    const returned = build(new GraphTools(this.#recorder, members))
    if (returned === undefined || returned === null) return []
    const origin = originOf<GraphTask>(returned)
    if (origin?.kind === "output" && origin.task.scope === members) return [origin.task.name, ...origin.segments]
    throw this.#recorder.problem(task.place, task.name, "the function of a group must return what one of its tasks returned")
  }

  #call(task: GraphTask, definition: Callable<never, unknown>, input: unknown, options: CallOptions): void {
    if (!isDefinition(definition))
      throw this.#recorder.problem(task.place, task.name, "must call what task, txTask, workflow, graph or yaml returned")
    this.#recorder.use(definition)
    const fields: TaskFields = definition.kind === "task" ? functionFields(definition) : workflowFields(definition.name)
    const retry = options.retry === undefined ? fields.retry : retryFields(retryPolicyOf(options.retry, `task ${task.name}`))
    task.fields = {
      ...fields,
      ...(retry !== undefined && { retry }),
      ...this.#input(task, input),
      ...this.#conditions(task, options),
      ...(options.queue !== undefined && { queue: options.queue }),
      ...(options.labels !== undefined && { labels: [...options.labels] }),
      ...(options.concurrencyKey !== undefined && {
        concurrency_key: this.#recorder.writeText(task, options.concurrencyKey),
      }),
      ...(options.cache !== undefined && { cache: this.#cache(task, options.cache) }),
    }
  }

  #input(task: GraphTask, input: unknown): TaskFields {
    if (input === undefined) return {}
    if (typeof input !== "object" || input === null || Array.isArray(input) || originOf(input) !== null) {
      const advice = "must be an object; write its fields, such as { day: g.params.day }"
      throw this.#recorder.problem(task.place, task.name, `the input ${advice}`)
    }
    return { input: this.#recorder.writeObject(task, input, `${task.name}.input`) }
  }

  #conditions(task: GraphTask, options: ConditionOptions): TaskFields {
    const { description, after = [], if: condition, runWhen, priority, timeout } = options
    for (const other of after) this.#recorder.depend(task, this.#taskOf(other, task.place))
    const origin = originOf<GraphTask>(condition)
    return {
      ...(description !== undefined && { description }),
      ...(origin !== null && { if: this.#recorder.expression(task, origin) }),
      ...(typeof condition === "boolean" && { if: condition }),
      ...(runWhen !== undefined && { run_when: runWhen }),
      ...(priority !== undefined && { priority }),
      ...(timeout !== undefined && { timeout: formatDuration(toMs(timeout, `task ${task.name}: timeout`)) }),
    }
  }

  #cache(task: GraphTask, { key, ttl }: NonNullable<CallOptions["cache"]>): NonNullable<TaskFields["cache"]> {
    return {
      key: this.#recorder.writeText(task, key),
      ...(ttl !== undefined && { ttl: formatDuration(toMs(ttl, `task ${task.name}: cache.ttl`)) }),
    }
  }

  #taskOf(value: RefOf<unknown>, place: string): GraphTask {
    const origin = originOf<GraphTask>(value)
    if (origin !== null && "task" in origin && origin.kind !== "item" && origin.kind !== "index") return origin.task
    throw this.#recorder.problem(place, "", "after and status take what a task, each or group returned")
  }
}

/** The values that a template may contain. */
type Insertable = RefOf<unknown> | string | number | boolean | null

const partsOf = (
  texts: TemplateStringsArray,
  values: readonly Insertable[],
  write: (value: Insertable) => string,
): (string | Origin<GraphTask>)[] =>
  texts.flatMap((text, i) => (i === values.length ? [text] : [text, originOf<GraphTask>(values[i]) ?? write(values[i]!)]))

/**
 * Returns the segments from the output of a task to the result of the definition that it calls. A sub-workflow outputs those of its
 * tasks.
 */
const resultSegments = (definition: Callable<never, unknown>): readonly PathSegment[] => {
  if (definition.kind === "task") return []
  if (definition.kind === "workflow") return [MAIN_TASK]
  return definition.result === null ? [] : [definition.result.task, ...definition.result.segments]
}

const eachOf = (segments: readonly PathSegment[]): readonly PathSegment[] => (segments.length === 0 ? [] : [{ each: segments }])
