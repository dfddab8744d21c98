// Ways to make a world smaller: fewer runs, engines, faults, requests and tasks, and simpler tasks.

import { GROUP_EXECUTOR } from "../../../src/core/model/workflow.ts"
import { CHILD_FUNCTION, type Op } from "../scenario/functions.ts"
import type { Scenario } from "../scenario/scenario.ts"
import { bareNode, isGated, type SimNode, type SimWorkflow } from "../scenario/workflows.ts"

export interface Reduction {
  text: string
  /** Changes a scenario that is as it was when the reduction was found. */
  apply: (scenario: Scenario) => void
}

/** Returns every reduction of a scenario by one step, the larger ones first. */
export const reductionsOf = (scenario: Scenario): Reduction[] => [
  ...fewerRuns(scenario),
  ...fewerEngines(scenario),
  ...fewerWorkflows(scenario),
  ...fewerActions(scenario),
  ...fewerSignals(scenario),
  ...fewerFaults(scenario),
  ...withoutServices(scenario),
  ...scenario.workflows.flatMap((workflow, i) => [
    ...fewerTasks(workflow, i),
    ...withoutUpstream(workflow, i),
    ...plainerWorkflow(workflow, i),
    ...plainerProgram(workflow, i),
    ...workflow.nodes.flatMap((simNode) => plainerTask(workflow, i, simNode)),
  ]),
]

const without = <T>(list: readonly T[], index: number): T[] => list.filter((_, i) => i !== index)

const after = (index: number, removed: number): number => (index > removed ? index - 1 : index)

const fewerRuns = ({ runs }: Scenario): Reduction[] =>
  runs.flatMap(({ label, private: engine }, i) =>
    runs.length === 1 || engine !== null
      ? []
      : [{ text: `without the run ${label}`, apply: (scenario) => removeRun(scenario, i) }],
  )

const removeRun = (scenario: Scenario, index: number): void => {
  scenario.runs = without(scenario.runs, index)
  scenario.actions = scenario.actions.filter(({ run }) => run !== index)
  for (const action of scenario.actions) action.run = after(action.run, index)
  for (const engine of scenario.engines) if (engine.privateRun !== null) engine.privateRun = after(engine.privateRun, index)
}

const fewerEngines = ({ engines }: Scenario): Reduction[] => {
  const shared = engines.filter(({ privateRun }) => privateRun === null).length
  return engines.flatMap(({ name, privateRun }, i) =>
    privateRun === null && shared === 1
      ? []
      : [{ text: `without the engine ${name}`, apply: (scenario) => removeEngine(scenario, i) }],
  )
}

const removeEngine = (scenario: Scenario, index: number): void => {
  const { faults } = scenario
  scenario.engines = without(scenario.engines, index)
  faults.crashes = faults.crashes.filter(({ engine }) => engine !== index)
  for (const crash of faults.crashes) crash.engine = after(crash.engine, index)
  for (const run of scenario.runs)
    if (run.private !== null) run.private = run.private === index ? null : after(run.private, index)
}

/** The last workflow is the one that sub-workflow tasks run. */
const fewerWorkflows = ({ workflows, runs }: Scenario): Reduction[] =>
  workflows.slice(0, -1).flatMap(({ compiled }, i) =>
    runs.some(({ workflow }) => workflow === i) || isFollowed(workflows, compiled.name) || isCalled(workflows, compiled.name)
      ? []
      : [
          {
            text: `without the workflow ${compiled.name}`,
            apply: (scenario) => {
              scenario.workflows = without(scenario.workflows, i)
              for (const run of scenario.runs) run.workflow = after(run.workflow, i)
            },
          },
        ],
  )

const isFollowed = (workflows: readonly SimWorkflow[], name: string): boolean =>
  workflows.some(({ compiled }) => compiled.triggers?.some((trigger) => "after" in trigger && trigger.after.includes(name)))

const isCalled = (workflows: readonly SimWorkflow[], name: string): boolean =>
  name === CHILD_FUNCTION && workflows.some(({ program }) => program !== undefined && hasKind(program, "child"))

const hasKind = (ops: readonly Op[], kind: Op["kind"]): boolean =>
  ops.some((op) => op.kind === kind || ("ops" in op && hasKind(op.ops, kind)))

const fewerActions = ({ actions, engines }: Scenario): Reduction[] => [
  ...actions.map(({ kind, at }, i) => ({
    text: `without the ${kind} at ${at} ms`,
    apply: (scenario: Scenario) => void (scenario.actions = without(scenario.actions, i)),
  })),
  ...engines.flatMap(({ name, restarts }, i) =>
    restarts.length === 0
      ? []
      : [{ text: `without restarts of ${name}`, apply: ({ engines: own }: Scenario) => void (own[i]!.restarts = []) }],
  ),
]

/** Without signals that are sent twice. Without another, a function may wait for ever. */
const fewerSignals = ({ runs }: Scenario): Reduction[] =>
  runs.flatMap(({ label, signals = [] }, run) =>
    signals.flatMap(({ name, at, key }, i) =>
      key === null || signals.findIndex((other) => other.key === key) === i
        ? []
        : [
            {
              text: `without the second signal ${name} to ${label} at ${at} ms`,
              apply: (scenario: Scenario) => void (scenario.runs[run]!.signals = without(signals, i)),
            },
          ],
    ),
  )

const RATES = ["failBeforeCommit", "failAfterCommit", "slow", "verySlow", "repeatBatch", "evaluator"] as const

const fewerFaults = ({ faults }: Scenario): Reduction[] => [
  ...faults.crashes.map(({ engine, call }, i) => ({
    text: `without the crash of engine ${engine} at call ${call}`,
    apply: (scenario: Scenario) => void (scenario.faults.crashes = without(scenario.faults.crashes, i)),
  })),
  ...RATES.filter((rate) => faults[rate] > 0).map((rate) => ({
    text: `without the fault ${rate}`,
    apply: (scenario: Scenario) => void (scenario.faults[rate] = 0),
  })),
  ...(faults.outage === null
    ? []
    : [{ text: "without the outage", apply: (scenario: Scenario) => void (scenario.faults.outage = null) }]),
]

/** Without jobs, changes of queues, retention, clock steps and differences between clocks. */
const withoutServices = ({ retention, clockSteps, engines, jobs, jobActions, queueChanges }: Scenario): Reduction[] => [
  ...jobs.map(({ at }, i) => ({
    text: `without the jobs at ${at} ms`,
    apply: (scenario: Scenario) => void (scenario.jobs = without(scenario.jobs, i)),
  })),
  ...jobActions.map(({ at, kind }, i) => ({
    text: `without the ${kind} of a job at ${at} ms`,
    apply: (scenario: Scenario) => void (scenario.jobActions = without(scenario.jobActions, i)),
  })),
  ...queueChanges.map(({ at, queue }, i) => ({
    text: `without the change of the queue ${queue} at ${at} ms`,
    apply: (scenario: Scenario) => void (scenario.queueChanges = without(scenario.queueChanges, i)),
  })),
  ...(retention === null
    ? []
    : [{ text: "without retention", apply: (scenario: Scenario) => void (scenario.retention = null) }]),
  ...clockSteps.map(({ at }, i) => ({
    text: `without the clock step at ${at} ms`,
    apply: (scenario: Scenario) => void (scenario.clockSteps = without(scenario.clockSteps, i)),
  })),
  ...engines.flatMap(({ name, skewMs }, i) =>
    skewMs === 0
      ? []
      : [{ text: `with the clock of ${name} right`, apply: ({ engines: own }: Scenario) => void (own[i]!.skewMs = 0) }],
  ),
]

/** A task is removed together with the tasks that need it. */
const fewerTasks = ({ nodes, compiled }: SimWorkflow, workflow: number): Reduction[] =>
  nodes.flatMap(({ node, index }) => {
    const removed = needing(nodes, index)
    const left = nodes.filter((each) => !removed.has(each.index))
    const isAround = ({ index: group }: SimNode): boolean => left.some((each) => each.node.group === group)
    const hasEmptyGroup = left.some((each) => each.node.executor === GROUP_EXECUTOR && !isAround(each))
    if (hasEmptyGroup || !left.some((each) => each.node.hook === null)) return []
    const text = `without ${compiled.name}.${node.name}${removed.size === 1 ? "" : ` and ${removed.size - 1} tasks that need it`}`
    return [{ text, apply: ({ workflows }) => removeTasks(workflows[workflow]!, removed) }]
  })

/** Returns a task with all tasks below it, inside it, or that read it. */
const needing = (nodes: readonly SimNode[], first: number): Set<number> => {
  const found = new Set([first])
  for (let size = 0; size < found.size;) {
    size = found.size
    for (const { index, node } of nodes) {
      const needed = [...node.upstream, ...node.reads, node.group, node.parent]
      if (needed.some((each) => typeof each === "number" && found.has(each))) found.add(index)
    }
  }
  return found
}

const removeTasks = (workflow: SimWorkflow, removed: ReadonlySet<number>): void => {
  const left = workflow.nodes.filter(({ index }) => !removed.has(index))
  const places = new Map(left.map(({ index }, place) => [index, place]))
  const moved = (list: readonly number[]): number[] => list.flatMap((each) => places.get(each) ?? [])
  for (const simNode of left) {
    const { node } = simNode
    simNode.index = places.get(simNode.index)!
    for (const field of ["upstream", "downstream", "reads"] as const) node[field] = moved(node[field])
    if (node.group !== null) node.group = places.get(node.group)!
    if (node.parent !== undefined) node.parent = places.get(node.parent)!
  }
  workflow.nodes = left
  workflow.compiled.nodes = left.map(({ node }) => node)
}

/** A task whose expressions read no other task can run first. */
const withoutUpstream = ({ nodes, compiled }: SimWorkflow, workflow: number): Reduction[] =>
  nodes
    .filter(({ node }) => node.upstream.length > 0 && !JSON.stringify([node.if, node.fan, node.input]).includes("tasks."))
    .map(({ node: { name }, index }) => ({
      text: `${compiled.name}.${name} without upstream tasks`,
      apply: ({ workflows }) => {
        const own = workflows[workflow]!.nodes
        for (const up of own[index]!.node.upstream) {
          const { node } = own[up]!
          node.downstream = node.downstream.filter((each) => each !== index)
        }
        Object.assign(own[index]!.node, { upstream: [], reads: [] })
      },
    }))

const plainerWorkflow = ({ compiled, rates }: SimWorkflow, workflow: number): Reduction[] => [
  ...(["concurrency", "maxActiveRuns", "timeoutMs", "priority"] as const)
    .filter((field) => compiled[field] !== undefined)
    .map((field) => ({
      text: `${compiled.name} without ${field}`,
      apply: ({ workflows }: Scenario) => void delete workflows[workflow]!.compiled[field],
    })),
  ...(["fail", "hang", "odd", "slow"] as const)
    .filter((rate) => rates[rate] > 0)
    .map((rate) => ({
      text: `${compiled.name} without attempts that ${rate === "fail" || rate === "hang" ? rate : `are ${rate}`}`,
      apply: ({ workflows }: Scenario) => {
        const own = workflows[workflow]!
        own.rates = { ...own.rates, [rate]: 0 }
      },
    })),
]

/** Without one of the steps, or without what is around some; each changed program is a reduction. */
const plainerProgram = ({ compiled, program }: SimWorkflow, workflow: number): Reduction[] =>
  (program === undefined ? [] : smaller(program)).map(({ text, ops }) => ({
    text: `${compiled.name} ${text}`,
    apply: ({ workflows }) => void (workflows[workflow]!.program = ops),
  }))

const smaller = (ops: readonly Op[]): { text: string; ops: Op[] }[] =>
  ops.flatMap((op, i) => {
    const { id, kind } = op
    const replaced = (...by: Op[]): Op[] => [...ops.slice(0, i), ...by, ...ops.slice(i + 1)]
    return [
      ...(ops.length === 1 ? [] : [{ text: `without ${kind} ${id}`, ops: replaced() }]),
      ...("ops" in op
        ? [
            { text: `without what is around the steps of ${kind} ${id}`, ops: replaced(...op.ops) },
            ...smaller(op.ops).map(({ text, ops: inner }) => ({ text, ops: replaced({ ...op, ops: inner }) })),
          ]
        : []),
      ...("failures" in op && op.failures > 0
        ? [{ text: `without failures of ${kind} ${id}`, ops: replaced({ ...op, failures: 0 }) }]
        : []),
    ]
  })

const plainerTask = ({ compiled }: SimWorkflow, workflow: number, simNode: SimNode): Reduction[] => {
  const { index, node } = simNode
  const reduction = (what: string, change: (simNode: SimNode) => void): Reduction => ({
    text: `${compiled.name}.${node.name} without ${what}`,
    apply: ({ workflows }) => {
      const own = workflows[workflow]!.nodes[index]!
      change(own)
      own.node.gated = own.waitPlan !== null || isGated(own.node)
    },
  })
  const plain = bareNode(node.name)
  return [
    ...(simNode.condition === null
      ? []
      : [
          reduction("its condition", (own) => {
            own.condition = null
            delete own.node.if
          }),
        ]),
    ...(simNode.cacheKey === null
      ? []
      : [
          reduction("its cache", (own) => {
            own.cacheKey = null
            delete own.node.cache
          }),
        ]),
    ...(node.concurrency === undefined
      ? []
      : [
          reduction("its limit", (own) => {
            own.key = null
            delete own.node.concurrency
            delete own.node.concurrencyKey
          }),
        ]),
    ...(node.retry.maxAttempts === 1 ? [] : [reduction("retries", (own) => void (own.node.retry = plain.retry))]),
    ...(node.rule === "all_success" ? [] : [reduction("its rule", (own) => void (own.node.rule = "all_success"))]),
    ...(node.priority === null ? [] : [reduction("its priority", (own) => void (own.node.priority = null))]),
    ...(simNode.largeOutput ? [reduction("its large output", (own) => void (own.largeOutput = false))] : []),
  ]
}
