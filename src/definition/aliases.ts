// Rewrites alternative forms of a definition to the canonical one, before it is validated: the list form of tasks
// (`{ id, tasks: [ { id, command, dependencies, max_retries } ] }`), `max_retries`, a task's `on_failure: run | skip` or list
// of hooks, and a single `depends_on`. Accepts values of any shape. Records where everything was in the author's document.

import { quote } from "../core/compile/context/names.ts"
import { isObject } from "../core/values/json.ts"
import type { DefinitionProblem, Path } from "../core/model/problems.ts"
import { pathText } from "../core/model/problems.ts"
import { HOOK_EVENTS } from "../core/model/workflow.ts"
import { FORBIDDEN_KEY } from "./json-text.ts"

export interface CanonicalDefinition {
  value: unknown
  problems: DefinitionProblem[]
  /** Maps a path of the canonical form to the path in the author's document. */
  authorPath(path: Path): Path
}

type Fields = Record<string, unknown>

export const resolveAliases = (definition: unknown): CanonicalDefinition => {
  const resolver = new AliasResolver()
  return {
    value: resolver.workflow(definition),
    problems: resolver.problems,
    authorPath: (path) => resolver.authorPath(path),
  }
}

class AliasResolver {
  readonly problems: DefinitionProblem[] = []
  /** Paths in the author's document of moved values, by their canonical path. */
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
      if (Array.isArray(tasks)) value[hook] = tasks.map((task, i) => this.#hook(task, [hook, i]))
    }
    return value
  }

  /** Replaces the longest moved prefix of the path. */
  authorPath(path: Path): Path {
    for (let length = path.length; length > 0; length--) {
      const moved = this.#moved.get(pathText(path.slice(0, length)))
      if (moved !== undefined) return [...this.authorPath(moved.slice(0, -1)), moved.at(-1)!, ...path.slice(length)]
    }
    return path
  }

  #tasks(raw: unknown, path: Path): unknown {
    if (Array.isArray(raw)) return this.#taskList(raw, path)
    if (!isObject(raw)) return raw
    const tasks = Object.entries(raw).map(([name, task]) => [name, this.#task(task ?? {}, [...path, name])])
    return this.#withHooks(Object.fromEntries(tasks) as Fields, path)
  }

  /** Makes the hooks of a task tasks of their own, below it, which run after its failure and never change the outcome of the run. */
  #withHooks(tasks: Fields, path: Path): Fields {
    const all: Fields = {}
    for (const [name, task] of Object.entries(tasks)) {
      all[name] = task
      if (!isObject(task) || !Array.isArray(task["on_failure"])) continue
      const { on_failure: hooks, ...own } = task
      all[name] = own
      for (const [i, hook] of (hooks as unknown[]).entries()) {
        const hookName = `${name}-on_failure-${i}`
        const place = [...path, name, "on_failure", i]
        this.#moved.set(pathText([...path, hookName]), place)
        if (Object.hasOwn(tasks, hookName)) this.#add(place, `is named ${quote(hookName)}, like another task; rename that task`)
        else all[hookName] = this.#taskHook(this.#hook(hook, [...path, hookName]), [...path, hookName], name)
      }
    }
    return all
  }

  #taskHook(hook: unknown, path: Path, task: string): unknown {
    if (!isObject(hook)) return hook
    for (const field of ["depends_on", "run_when", "continue_on_error", "tasks"]) {
      if (hook[field] !== undefined)
        this.#add([...path, field], "is not for hooks: a hook is a single task, which runs after the failure")
    }
    const { tasks: _, ...fields } = hook
    return { ...fields, depends_on: [task], run_when: "any_failed", continue_on_error: true }
  }

  #hook(raw: unknown, path: Path): unknown {
    const task = this.#task(raw, path)
    if (!isObject(task) || !Array.isArray(task["on_failure"])) return task
    this.#add([...path, "on_failure"], "a hook cannot have hooks")
    const { on_failure: _, ...fields } = task
    return fields
  }

  /** Converts a list of tasks to a map by id. */
  #taskList(list: unknown[], path: Path): Fields {
    const tasks: Fields = {}
    for (const [i, item] of list.entries()) {
      const id = isObject(item) ? (item["id"] ?? item["name"]) : undefined
      if (!isObject(item)) this.#add([...path, i], "must be an object with id and command")
      else if (typeof id !== "string") this.#add([...path, i], "needs an id, because the tasks are a list")
      else if (id === "__proto__") this.#add([...path, i, "id"], FORBIDDEN_KEY)
      else if (Object.hasOwn(tasks, id)) {
        const first = this.#moved.get(pathText([...path, id]))!.at(-1)!
        this.#add(
          [...path, i, "id"],
          `${quote(id)} is defined twice; the first task of that name is ${pathText([...path, first])}`,
        )
      } else tasks[id] = this.#listedTask(item, id, i, path)
    }
    return this.#withHooks(tasks, path)
  }

  #listedTask(item: Fields, id: string, i: number, path: Path): unknown {
    const { id: _, name: __, ...fields } = item
    // With both, `name` is left for the schema to reject.
    if (item["id"] !== undefined && item["name"] !== undefined) fields["name"] = item["name"]
    this.#moved.set(pathText([...path, id]), [...path, i])
    if (fields["dependencies"] !== undefined) this.#rename(fields, [...path, id], "dependencies", "depends_on")
    return this.#task(fields, [...path, id])
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

  /** Converts `on_failure: run | skip` of a task to `run_when`. */
  #onFailure(task: Fields, path: Path): void {
    const value = task["on_failure"]
    if (value !== "run" && value !== "skip") {
      const message = "must be a list of hooks, run (the task runs even if an upstream failed) or skip"
      this.#add([...path, "on_failure"], message)
    } else {
      task["on_failure"] = value === "run" ? "all_done" : "all_success"
      this.#rename(task, path, "on_failure", "run_when")
    }
    delete task["on_failure"]
  }

  #rename(fields: Fields, path: Path, from: string, to: string): void {
    if (fields[to] === undefined) {
      fields[to] = fields[from]
      this.#moved.set(pathText([...path, to]), [...path, from])
    } else {
      this.#add([...path, from], `${from} is another name for ${to}, which is set too; keep one of them`)
    }
    delete fields[from]
  }

  #add(path: Path, message: string): void {
    this.problems.push({ path, message, key: true })
  }
}
