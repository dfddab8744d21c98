// Random workflows in compiled form. Each expression that the engine evaluates (conditions, lists, keys) comes with a function that
// computes its expected value without code of the engine.

import type { Json, JsonObject } from "../../../src/core/values/json.ts"
import {
  type CompiledWorkflow,
  GROUP_EXECUTOR,
  HOOK_EVENTS,
  type HookEvent,
  type Node,
  RUN_WHEN,
} from "../../../src/core/model/workflow.ts"
import { Rng } from "../rng.ts"
import type { Op } from "./functions.ts"

/** The values that the expressions of a task can read. */
export interface ExpressionScope {
  params: JsonObject
  upstream: (name: string) => { status: string; output: Json }
  index: number | null
  /** The index of the item of the nearest group with items around the task; null: there is none. */
  parentIndex: number | null
}

export interface SimNode {
  index: number
  node: Node
  condition: { perInstance: boolean; evaluate: (scope: ExpressionScope) => boolean | "error" } | null
  /** The items of a fan-out in order (nulls for a count), or `error` for a value that is no list or count; null: no fan-out. */
  items: ((scope: ExpressionScope) => Json[] | "error") | null
  key: ((scope: ExpressionScope) => string) | null
  cacheKey: ((scope: ExpressionScope) => string) | null
  /** The output is large and goes to the object store. */
  largeOutput: boolean
  /** The task waits without a slot, or defers its work to a callback; null: neither. */
  waitPlan: WaitPlan | null
}

export type WaitPlan =
  | { kind: "sleep"; ms: number }
  | { kind: "approval"; default: "approve" | "reject" | null }
  | { kind: "workflow" }
  | { kind: "wait"; appearsAtMs: number; everyMs: number }
  | { kind: "defer" }

/** How often the tasks of a workflow misbehave, as probabilities. */
export interface FailureRates {
  fail: number
  hang: number
  odd: number
  slow: number
}

export interface SimWorkflow {
  compiled: CompiledWorkflow
  nodes: SimNode[]
  rates: FailureRates
  /** Steps of a durable function; undefined: the workflow is none. */
  program?: Op[]
}

export const bareNode = (name: string): Node => ({
  name,
  group: null,
  hook: null,
  executor: "fake",
  upstream: [],
  downstream: [],
  reads: [],
  rule: "all_success",
  gated: false,
  fields: {},
  env: {},
  retry: { maxAttempts: 1, backoff: "exponential", baseDelayMs: 1000, maxDelayMs: 300_000, jitter: false },
  lostRetries: 3,
  timeoutMs: 3_600_000,
  startTimeoutMs: 300_000,
  queue: "default",
  labels: [],
  priority: null,
})

export const newSimNode = (index: number, node: Node): SimNode => ({
  index,
  node,
  condition: null,
  items: null,
  key: null,
  cacheKey: null,
  largeOutput: false,
  waitPlan: null,
})

// -- shape -----------------------------------------------------------------------------------------------------------------------

const SHAPES = ["chain", "layers", "diamond", "random", "apart"] as const

const taskCount = (rng: Rng): number => (rng.chance(0.6) ? rng.int(1, 6) : rng.chance(0.85) ? rng.int(7, 14) : rng.int(15, 40))

const upstreamsOf = (rng: Rng, shape: (typeof SHAPES)[number], i: number, count: number): number[] => {
  const some = (low: number, high: number, n: number): number[] =>
    high < low ? [] : Array.from({ length: n }, () => rng.int(low, high))
  switch (shape) {
    case "chain":
      return i === 0 ? [] : [i - 1]
    case "layers": {
      const width = Math.max(1, Math.ceil(Math.sqrt(count)))
      const layer = Math.floor(i / width)
      return layer === 0 ? [] : some((layer - 1) * width, layer * width - 1, rng.int(1, 3))
    }
    case "diamond":
      return i === 0 ? [] : i === count - 1 ? some(1, count - 2, count).concat(count === 2 ? [0] : []) : [0]
    case "random":
      return some(Math.max(0, i - 6), i - 1, rng.int(0, 3))
    case "apart":
      return []
    default:
      return shape satisfies never
  }
}

const ascending = (list: number[]): number[] => [...new Set(list)].toSorted((a, b) => a - b)

// -- features of tasks -----------------------------------------------------------------------------------------------------------

/** A field of an output; undefined when it is missing, which fails the task that reads it. */
const fieldOf = (output: Json, field: string): Json | undefined =>
  typeof output === "object" && output !== null && !Array.isArray(output) ? output[field] : undefined

const addCondition = (rng: Rng, simNode: SimNode, plainUp: string | null): void => {
  const { node } = simNode
  const bound = rng.int(0, 4)
  const choices: [string, boolean, (scope: ExpressionScope) => boolean | "error"][] = [
    [`params.x > ${bound}`, false, (scope) => (scope.params["x"] as number) > bound],
  ]
  if (plainUp !== null) {
    const flag = (scope: ExpressionScope): boolean | "error" => {
      const value = fieldOf(scope.upstream(plainUp).output, "flag")
      return value === undefined ? "error" : value === true
    }
    choices.push([`tasks.${plainUp}.output.flag`, false, flag])
    choices.push([`tasks.${plainUp}.status == "success"`, false, (scope) => scope.upstream(plainUp).status === "success"])
  }
  if (node.fan !== undefined) choices.push(["index % 2 == 0", true, (scope) => scope.index! % 2 === 0])
  const [source, perInstance, evaluate] = rng.pick(choices)
  node.if = source
  simNode.condition = { perInstance, evaluate }
}

const addFan = (rng: Rng, simNode: SimNode, plainUp: string | null, fanUp: string | null): void => {
  const { node } = simNode
  let foreach: ((scope: ExpressionScope) => Json | undefined) | null = null
  let parallel: ((scope: ExpressionScope) => Json | undefined) | null = null
  const fan: NonNullable<Node["fan"]> = { reference: "the reference" }
  const kind = rng.pick(["foreach", "foreach", "parallel", "both"] as const)
  const read = (field: string) => (scope: ExpressionScope) => fieldOf(scope.upstream(plainUp!).output, field)
  if (kind !== "parallel") {
    const wrong = rng.chance(0.06)
    if (fanUp !== null && rng.chance(0.4)) {
      fan.foreach = { expr: `tasks.${fanUp}.output` }
      foreach = (scope) => scope.upstream(fanUp).output
    } else if (plainUp !== null && rng.chance(0.7)) {
      const field = wrong ? "n" : "items"
      fan.foreach = { expr: `tasks.${plainUp}.output.${field}` }
      foreach = read(field)
    } else {
      const list = wrong ? "no list" : Array.from({ length: rng.int(0, 5) }, (_, i) => i * 10)
      fan.foreach = { lit: list }
      foreach = () => list
    }
  }
  if (kind !== "foreach") {
    if (plainUp !== null && rng.chance(0.5)) {
      fan.parallel = { expr: `tasks.${plainUp}.output.n` }
      parallel = read("n")
    } else {
      const count = rng.chance(0.05) ? -1 : rng.int(0, kind === "both" ? 3 : 7)
      fan.parallel = { lit: count }
      parallel = () => count
    }
  }
  node.fan = fan
  simNode.items = (scope) => {
    const list = foreach === null ? [null] : foreach(scope)
    const each = parallel === null ? 1 : parallel(scope)
    if (!Array.isArray(list) || typeof each !== "number" || !Number.isInteger(each) || each < 0) return "error"
    return list.flatMap((item) => Array.from({ length: each }, () => item))
  }
}

/** A fan-out of more instances than one transaction creates. */
const addHugeFan = (rng: Rng, simNode: SimNode): void => {
  const count = rng.int(501, 1100)
  const items = Array.from({ length: count }, () => null)
  simNode.node.fan = { parallel: { lit: count }, reference: String(count) }
  simNode.items = () => items
}

const addKeys = (rng: Rng, simNode: SimNode): void => {
  const { node } = simNode
  const byIndex = node.fan !== undefined && rng.chance(0.5)
  if (rng.chance(0.12)) {
    node.concurrencyKey = byIndex ? "index % 2" : "params.g"
    node.concurrency = rng.int(1, 2)
    simNode.key = (scope) => (byIndex ? String(scope.index! % 2) : (scope.params["g"] as string))
  } else if (rng.chance(0.25)) {
    node.concurrency = rng.int(1, 3)
  }
  if (rng.chance(0.08)) {
    node.cache = { key: byIndex ? "index" : "params.g", ttlMs: rng.chance(0.5) ? null : rng.int(1, 20) * 1000 }
    simNode.cacheKey = (scope) => (byIndex ? String(scope.index) : (scope.params["g"] as string))
  }
}

const addRetries = (rng: Rng, node: Node): void => {
  if (rng.chance(0.6)) {
    node.retry = {
      maxAttempts: rng.int(1, 4),
      backoff: rng.pick(["fixed", "linear", "exponential"] as const),
      baseDelayMs: rng.pick([0, 100, 1000, 3000]),
      maxDelayMs: rng.pick([2000, 10_000]),
      jitter: rng.chance(0.5),
    }
  }
  node.lostRetries = rng.pick([0, 1, 3, 3, 10])
  node.timeoutMs = rng.pick([2000, 10_000, 3_600_000, null])
  node.startTimeoutMs = rng.pick([1000, 5000, 300_000, null])
}

// -- workflows -------------------------------------------------------------------------------------------------------------------

export const makeWorkflow = (rng: Rng, name: string, huge: boolean): SimWorkflow => {
  const shape = rng.pick(SHAPES)
  const count = taskCount(rng)
  const fancy = huge || rng.chance(0.8)
  const nodes: SimNode[] = []
  for (let i = 0; i < count; i++) {
    const simNode = newSimNode(i, bareNode(`t${i}`))
    const { node } = simNode
    node.upstream = ascending(upstreamsOf(rng, shape, i, count))
    node.reads = node.upstream
    const plain = node.upstream.filter((up) => nodes[up]!.items === null).map((up) => nodes[up]!.node.name)
    const fans = node.upstream.filter((up) => nodes[up]!.items !== null).map((up) => nodes[up]!.node.name)
    const plainUp = plain.length > 0 ? rng.pick(plain) : null
    if (fancy) {
      if (rng.chance(0.3)) node.rule = rng.pick(RUN_WHEN)
      if (rng.chance(0.1)) node.continueOnError = true
      if (huge && i === 0) addHugeFan(rng, simNode)
      else if (rng.chance(0.25)) addFan(rng, simNode, plainUp, fans.length > 0 ? rng.pick(fans) : null)
      if (rng.chance(0.15)) addCondition(rng, simNode, plainUp)
      addKeys(rng, simNode)
      if (rng.chance(0.15)) node.priority = rng.int(1, 10)
      node.input = { map: { x: { expr: "params.x" } } }
      // The instances of a fan-out read it from a file.
      simNode.largeOutput = node.fan === undefined && rng.chance(0.04)
    }
    addRetries(rng, node)
    nodes.push(simNode)
  }
  for (const { index, node } of nodes) for (const up of node.upstream) nodes[up]!.node.downstream.push(index)
  for (const simNode of nodes) {
    simNode.node.gated = isGated(simNode.node)
  }
  const hooks = rng.chance(0.4) ? HOOK_EVENTS.filter(() => rng.chance(0.6)) : []
  for (const event of hooks) nodes.push(makeHook(rng, nodes.length, event))
  return { compiled: compile(rng, name, nodes), nodes, rates: makeRates(rng) }
}

/** Returns a workflow of at most `maxTasks` tasks. */
export const smallWorkflow = (name: string, seed: number, maxTasks: number): SimWorkflow => {
  for (let version = 0; ; version++) {
    const workflow = makeWorkflow(new Rng("small", name, seed, version), name, false)
    if (workflow.nodes.length <= maxTasks) return workflow
  }
}

export const isGated = (node: Node): boolean =>
  node.rule !== "all_success" ||
  node.executor === GROUP_EXECUTOR ||
  [node.if, node.fan, node.cache, node.concurrencyKey].some((reason) => reason !== undefined)

const makeHook = (rng: Rng, index: number, event: HookEvent): SimNode => {
  const node = { ...bareNode(`${event}.0`), hook: event }
  addRetries(rng, node)
  return newSimNode(index, node)
}

const makeRates = (rng: Rng): FailureRates =>
  rng.pick([
    { fail: 0, hang: 0, odd: 0.02, slow: 0.05 },
    { fail: 0.1, hang: 0.02, odd: 0.1, slow: 0.1 },
    { fail: 0.3, hang: 0.05, odd: 0.2, slow: 0.2 },
  ])

const compile = (rng: Rng, name: string, nodes: SimNode[]): CompiledWorkflow => ({
  format: 1,
  name,
  tags: [],
  params: [],
  schedules: [],
  notify: [],
  include: [],
  nodes: nodes.map((simNode) => simNode.node),
  ...(rng.chance(0.3) && { concurrency: rng.int(1, 4) }),
  ...(rng.chance(0.3) && { maxActiveRuns: rng.int(1, 2) }),
  ...(rng.chance(0.1) && { timeoutMs: rng.int(3, 40) * 1000 }),
  ...(rng.chance(0.2) && { priority: rng.int(1, 10) }),
})
