// Graphs in code: `graph` calls its function once, when the program declares it, and records tasks and references. The result is the same
// definition that a YAML file contains; definition/parse.ts compiles both.

import type { WorkflowDefinition as Source } from "../../core/model/definition.ts"
import { formatDuration } from "../../core/values/quantities.ts"
import type { Definition } from "../definitions.ts"
import { type Duration, toMs } from "../duration.ts"
import { InvalidDefinitionError } from "../errors.ts"
import { checkNames, GRAPH } from "../option-names.ts"
import { checkSchema, type OutputOf, type InputOf, type StandardSchema } from "../schema.ts"
import { paramsOfSchema } from "./params.ts"
import { callerLocation } from "./caller-location.ts"
import { originOf, type RefOf, type PathSegment } from "./refs.ts"
import { type GraphTask, Recorder } from "./recorder.ts"
import { GraphTools } from "./tools.ts"

export interface GraphOptions<Schema extends StandardSchema | undefined> {
  /** Schema of the params: an object, whose schema can be written as JSON Schema. */
  params?: Schema
  description?: string
  tags?: readonly string[]
  /** Limit of a run. */
  timeout?: Duration
  /** Number of tasks of a run that run at once. */
  concurrency?: number
  /** Number of runs that are active at once. */
  maxActiveRuns?: number
  /** 1 to 10. Default: 5. */
  priority?: number
}

/** A workflow that is a graph of tasks, in code (`graph`) or in a file (`yaml`). */
export interface GraphDefinition<Input, Output> {
  readonly kind: "graph"
  readonly name: string
  readonly schema: StandardSchema | undefined
  readonly source: GraphSource
  /** Definitions that its tasks call. */
  readonly uses: readonly Definition[]
  /** The value that is the result of a run; null: the outputs of its tasks, by name. */
  readonly result: GraphResult | null
  /** Only for the inference of the input. */
  readonly _input?: (input: Input) => void
  /** Only for the inference of the output. */
  readonly _output?: Output
}

export type AnyGraph = GraphDefinition<never, unknown>

export type GraphSource =
  | { readonly kind: "code"; readonly definition: Source; readonly places: ReadonlyMap<string, string> }
  | { readonly kind: "file"; readonly file: string; readonly text: string }

export interface GraphResult {
  readonly task: string
  readonly segments: readonly PathSegment[]
}

/** Returns the definitions together with those that graphs among them call, each once. */
export const withCalledDefinitions = (definitions: readonly Definition[]): Definition[] => {
  const all = new Set<Definition>()
  const add = (definition: Definition): void => {
    if (all.has(definition)) return
    all.add(definition)
    if (definition.kind === "graph") definition.uses.forEach(add)
  }
  definitions.forEach(add)
  return [...all]
}

/** Declares a graph. Its function gets the tools to add tasks, and returns the reference to its result. */
export const graph = <Schema extends StandardSchema | undefined = undefined, Output = unknown>(
  name: string,
  options: GraphOptions<Schema>,
  build: (g: GraphTools<OutputOf<Schema>>) => RefOf<Output> | void,
): GraphDefinition<InputOf<Schema>, Output> => {
  const place = callerLocation(import.meta.url)
  checkNames(options, GRAPH, `graph ${name}`)
  const recorder = new Recorder(`graph ${name}`, place)
  const returned = build(new GraphTools(recorder, null))
  const { timeout, concurrency, maxActiveRuns, priority, description, tags } = options
  const definition: Source = {
    name,
    ...(description !== undefined && { description }),
    ...(tags !== undefined && { tags: [...tags] }),
    ...(options.params !== undefined && {
      params: paramsOfSchema(checkSchema(options.params, `graph ${name}: params`), `graph ${name}`, place),
    }),
    ...(timeout !== undefined && { timeout: formatDuration(toMs(timeout, `graph ${name}: timeout`)) }),
    ...(concurrency !== undefined && { concurrency }),
    ...(maxActiveRuns !== undefined && { max_active_runs: maxActiveRuns }),
    ...(priority !== undefined && { priority }),
    tasks: recorder.definitions(),
  }
  return {
    kind: "graph",
    name,
    schema: options.params,
    source: { kind: "code", definition, places: recorder.places() },
    uses: recorder.uses(),
    result: resultOf(returned, name, place),
  }
}

const resultOf = (returned: unknown, name: string, place: string): GraphResult | null => {
  if (returned === undefined || returned === null) return null
  const origin = originOf<GraphTask>(returned)
  if (origin?.kind === "output" && origin.task.scope.group === null)
    return { task: origin.task.name, segments: origin.segments }
  throw new InvalidDefinitionError(`graph ${name}`, [
    { path: "", message: "the function must return what a task, each or group of the graph returned, or nothing", place },
  ])
}
