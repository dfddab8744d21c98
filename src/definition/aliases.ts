// Other ways to write the same, turned into the one form before anything else looks: the list form of tasks
// (`{ id, tasks: [ { id, command, dependencies, max_retries } ] }`), `max_retries`, a task's `on_failure: run | skip`, a single
// `depends_on`. Tolerant of any shape, since nothing is checked yet. Remembers where each thing stood.

import { quote } from "../core/compile/names.ts"
import { isObject } from "../core/model/json.ts"
import type { DefinitionProblem, Path } from "../core/model/problems.ts"
import { pathText } from "../core/model/problems.ts"
import { HOOK_EVENTS } from "../core/model/workflow.ts"

export interface CanonicalDefinition {
  value: unknown
  findings: DefinitionProblem[]
  /** The path in the author's own document. */
  origin(path: Path): Path
}

type Fields = Record<string, unknown>

export const resolveAliases = (raw: unknown): CanonicalDefinition => {
  const door = new AliasResolver()
  return { value: door.workflow(raw), findings: door.findings, origin: (path) => door.origin(path) }
}

class AliasResolver {
  readonly findings: DefinitionProblem[] = []
  readonly #moved = new Map<string, Path>()

  workflow(raw: unknown): unknown {
    if (!isObject(raw)) return raw
    const value: Fields = { ...raw }
    if (Array.isArray(raw["tasks"]) && raw["name"] === undefined && raw["id"] !== undefined)
      this.#rename(value, [], "id", "name")
    if (raw["tasks"] !== undefined) value["tasks"] = this.#tasks(raw["tasks"], ["tasks"])
    if (raw["defaults"] !== undefined) value["defaults"] = this.#task(raw["defaults"], ["defaults"])
    for (const hook of HOOK_EVENTS) {
      const tasks = raw[hook]
      if (Array.isArray(tasks)) value[hook] = tasks.map((task, i) => this.#task(task, [hook, i]))
    }
    return value
  }

  /** The longest part of the path that was moved leads back. */
  origin(path: Path): Path {
    for (let length = path.length; length > 0; length--) {
      const moved = this.#moved.get(pathText(path.slice(0, length)))
      if (moved !== undefined) return [...this.origin(moved.slice(0, -1)), moved.at(-1)!, ...path.slice(length)]
    }
    return path
  }

  #tasks(raw: unknown, path: Path): unknown {
    if (isObject(raw)) {
      return Object.fromEntries(Object.entries(raw).map(([name, task]) => [name, this.#task(task ?? {}, [...path, name])]))
    }
    if (!Array.isArray(raw)) return raw
    const tasks: Fields = {}
    for (const [i, item] of raw.entries()) {
      const id = isObject(item) ? (item["id"] ?? item["name"]) : undefined
      if (!isObject(item) || typeof id !== "string") {
        this.#add([...path, i], isObject(item) ? "a task in a list needs its id" : "must be an object with id and command")
      } else if (id === "__proto__") {
        this.#add([...path, i, "id"], `${quote(id)} is not allowed as a name`)
      } else if (Object.hasOwn(tasks, id)) {
        const first = this.#moved.get(pathText([...path, id]))?.at(-1)
        this.#add([...path, i, "id"], `the name ${quote(id)} stands here twice; the first is ${pathText([...path, first!])}`)
      } else {
        const { id: _, name: __, ...fields } = item
        if (item["id"] !== undefined && item["name"] !== undefined) fields["name"] = item["name"]
        this.#moved.set(pathText([...path, id]), [...path, i])
        if (fields["dependencies"] !== undefined) this.#rename(fields, [...path, id], "dependencies", "depends_on")
        tasks[id] = this.#task(fields, [...path, id])
      }
    }
    return tasks
  }

  #task(raw: unknown, path: Path): unknown {
    if (!isObject(raw)) return raw
    const task: Fields = { ...raw }
    if (task["max_retries"] !== undefined) this.#rename(task, path, "max_retries", "retries")
    if (task["on_failure"] !== undefined && !Array.isArray(task["on_failure"])) this.#onFailure(task, path)
    if (typeof task["depends_on"] === "string") task["depends_on"] = [task["depends_on"]]
    if (task["tasks"] !== undefined) task["tasks"] = this.#tasks(task["tasks"], [...path, "tasks"])
    return task
  }

  #onFailure(task: Fields, path: Path): void {
    const word = task["on_failure"]
    if (word !== "run" && word !== "skip") {
      this.#add([...path, "on_failure"], "must be run (even if an upstream failed) or skip; hooks belong to the workflow")
    } else {
      task["on_failure"] = word === "run" ? "all_done" : "all_success"
      this.#rename(task, path, "on_failure", "run_when")
    }
    delete task["on_failure"]
  }

  #rename(fields: Fields, path: Path, from: string, to: string): void {
    if (fields[to] === undefined) {
      fields[to] = fields[from]
      this.#moved.set(pathText([...path, to]), [...path, from])
    } else {
      this.#add([...path, from], `${from} means ${to}, which is given too; keep one`)
    }
    delete fields[from]
  }

  #add(path: Path, message: string): void {
    this.findings.push({ path, message, key: true })
  }
}
