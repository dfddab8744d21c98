// Turns the trace of a real workflow execution (wfcommons/WfInstances, slimmed to `{ name, tasks: [{ id, parents, runtime_s }] }`)
// into an Ork definition: the same graph, each task a process that sleeps for its recorded runtime, scaled.
// `node bench/wfcommons.ts FILE [--scale X] > workflow.json`. FILE may be a name in $ORK_WFINSTANCES, which is by default
// ../shared/data/wfinstances beside the checkout. Without a scale, the run takes about three seconds.

import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"

export interface Trace {
  name: string
  tasks: { id: string; parents: string[]; runtime_s: number }[]
}

export interface TraceWorkflow {
  name: string
  description: string
  tasks: { [name: string]: { command: string[]; depends_on: string[] } }
}

export const TRACES = process.env.ORK_WFINSTANCES ?? join(import.meta.dirname, "../../shared/data/wfinstances")

const TARGET_SECONDS = 3
/** The number of concurrent tasks that the default scale assumes. */
const SLOTS = 16

export const readTrace = (file: string): Trace => {
  const path = [file, join(TRACES, file)].find((candidate) => existsSync(candidate))
  if (path === undefined) throw new Error(`no trace ${file}, and none of that name in ${TRACES}; set ORK_WFINSTANCES`)
  return JSON.parse(readFileSync(path, "utf8")) as Trace
}

export const convert = (trace: Trace, scale = defaultScale(trace)): TraceWorkflow => {
  const names = taskNames(trace.tasks.map((task) => task.id))
  const nameOf = (id: string): string => {
    const name = names.get(id)
    if (name === undefined) throw new Error(`trace ${trace.name} names a parent ${id} that is not a task`)
    return name
  }
  const tasks = trace.tasks.map((task) => {
    const seconds = Math.max(0, task.runtime_s * scale)
    const command: string[] = ["sleep", seconds.toFixed(3)]
    return [nameOf(task.id), { command, depends_on: task.parents.map(nameOf) }] as const
  })
  return {
    name: trace.name.replaceAll(/[^A-Za-z0-9_.-]/g, "-").slice(0, 128),
    description: `${trace.tasks.length} tasks, their recorded runtimes × ${scale.toPrecision(3)}`,
    tasks: Object.fromEntries(tasks),
  }
}

/** Turns ids into valid and unique task names: replaces other characters by `_`, and appends a number to duplicates. */
const taskNames = (ids: string[]): Map<string, string> => {
  const taken = new Set<string>()
  const names = new Map<string, string>()
  for (const id of ids) {
    const base = `t_${id.replaceAll(/[^A-Za-z0-9_-]/g, "_")}`.slice(0, 56)
    let name = base
    for (let n = 2; taken.has(name); n++) name = `${base}-${n}`
    taken.add(name)
    names.set(id, name)
  }
  return names
}

const defaultScale = (trace: Trace): number => {
  const total = trace.tasks.reduce((sum, task) => sum + task.runtime_s, 0)
  const longest = Math.max(criticalPath(trace), total / SLOTS)
  return longest > 0 ? TARGET_SECONDS / longest : 1
}

/** The seconds of the longest chain. A trace may list children before their parents. */
const criticalPath = (trace: Trace): number => {
  const tasks = new Map(trace.tasks.map((task) => [task.id, task]))
  const ends = new Map<string, number>()
  const endOf = (id: string): number => {
    const known = ends.get(id)
    if (known !== undefined) return known
    const task = tasks.get(id)
    const end = (task?.runtime_s ?? 0) + Math.max(0, ...(task?.parents ?? []).map(endOf))
    ends.set(id, end)
    return end
  }
  return Math.max(0, ...trace.tasks.map((task) => endOf(task.id)))
}

if (import.meta.main) {
  const { values, positionals } = parseArgs({ allowPositionals: true, options: { scale: { type: "string" } } })
  const [file] = positionals
  const scale = values.scale === undefined ? undefined : Number(values.scale)
  if (file === undefined || (scale !== undefined && !(scale >= 0))) {
    console.error("usage: node bench/wfcommons.ts FILE [--scale X] > workflow.json")
    process.exit(2)
  }
  console.log(JSON.stringify(convert(readTrace(file), scale), null, 2))
}
