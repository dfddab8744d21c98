// Records the tasks of a graph while its function runs, and writes values with references as expressions of the definition.

import type { TaskDefinition as TaskFields } from "../../core/model/definition.ts"
import { formatPath } from "../../core/expressions/expression-path.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import type { Definition } from "../definitions.ts"
import { InvalidDefinitionError } from "../errors.ts"
import { literal } from "./literal.ts"
import { isReference, type Origin, originOf, type RefOf, pathText } from "./refs.ts"

/** A task, fan-out or group of a graph. */
export interface GraphTask {
  readonly name: string
  readonly scope: GraphScope
  /** `app.ts:12:5`. */
  readonly place: string
  readonly isFanned: boolean
  readonly dependsOn: Set<string>
  fields: TaskFields
  /** Set for a group. */
  members: GraphScope | null
}

/** The tasks of the graph, or of a group. */
export interface GraphScope {
  readonly group: GraphTask | null
  readonly tasks: Map<string, GraphTask>
}

type TaskOrigin = Origin<GraphTask>

export class Recorder {
  readonly root: GraphScope = { group: null, tasks: new Map() }
  readonly #what: string
  readonly #place: string
  readonly #uses = new Set<Definition>()

  constructor(what: string, place: string) {
    this.#what = what
    this.#place = place
  }

  use(definition: Definition): void {
    this.#uses.add(definition)
  }

  uses(): Definition[] {
    return [...this.#uses]
  }

  add(scope: GraphScope, { name, place, isFanned }: Pick<GraphTask, "name" | "place" | "isFanned">): GraphTask {
    const other = scope.tasks.get(name)
    if (other !== undefined) throw this.problem(place, name, `there is another task of this name, at ${other.place}`)
    const task: GraphTask = { name, scope, place, isFanned, dependsOn: new Set(), fields: {}, members: null }
    scope.tasks.set(name, task)
    return task
  }

  problem(place: string, path: string, message: string): InvalidDefinitionError {
    return new InvalidDefinitionError(this.#what, [{ path, message, place: place === "" ? this.#place : place }])
  }

  definitions(scope: GraphScope = this.root): { [name: string]: TaskFields } {
    return Object.fromEntries([...scope.tasks.values()].map((task) => [task.name, this.#definition(task)]))
  }

  #definition({ fields, dependsOn, members }: GraphTask): TaskFields {
    return {
      ...(dependsOn.size > 0 && { depends_on: [...dependsOn] }),
      ...fields,
      ...(members !== null && { tasks: this.definitions(members) }),
    }
  }

  /** Returns the place of each task, by its path in the definition. */
  places(scope: GraphScope = this.root, path = "tasks"): Map<string, string> {
    const places = new Map<string, string>()
    for (const task of scope.tasks.values()) {
      places.set(`${path}.${task.name}`, task.place)
      if (task.members === null) continue
      for (const [below, place] of this.places(task.members, `${path}.${task.name}.tasks`)) places.set(below, place)
    }
    return places
  }

  // -- values ----------------------------------------------------------------------------------------------------------------------

  /** Writes a value of a task's field. References become expressions, and dependencies of the task. */
  write(task: GraphTask, value: unknown, path: string): Json {
    if (typeof value === "string" || isReference(value)) return this.writeText(task, value)
    if (value === null || typeof value === "boolean") return value
    if (typeof value === "number" && Number.isFinite(value)) return value
    if (Array.isArray(value)) return value.map((item, i) => this.write(task, item, `${path}[${i}]`))
    if (typeof value === "object" && isPlain(value)) return this.writeObject(task, value, path)
    throw this.problem(task.place, path, `${describe(value)} is not JSON; pass a text, a number, a list or an object`)
  }

  writeObject(task: GraphTask, value: object, path: string): JsonObject {
    const written: JsonObject = {}
    for (const [key, item] of Object.entries(value)) {
      if (item !== undefined) written[key] = this.write(task, item, `${path}.${key}`)
    }
    return written
  }

  /** Writes a text, or a reference as an expression. */
  writeText(task: GraphTask, value: string | RefOf<unknown>): string {
    if (typeof value === "string") return literal(value)
    const origin = originOf<GraphTask>(value)!
    if (origin.kind !== "text") return `\${{ ${this.expression(task, origin)} }}`
    return origin.parts.map((part) => this.#writePart(task, part)).join("")
  }

  #writePart(task: GraphTask, part: string | TaskOrigin): string {
    if (typeof part !== "string") return `\${{ ${this.expression(task, part)} }}`
    // A dollar before an expression would make it literal.
    return literal(part).replace(/\$$/, () => '${{ "$" }}')
  }

  /** Returns the expression of a reference as a task sees it, and makes the task depend on what it refers to. */
  expression(task: GraphTask, origin: TaskOrigin): string {
    switch (origin.kind) {
      case "params":
      case "run":
        return origin.kind + pathText(origin.segments)
      case "output":
        this.depend(task, origin.task)
        return formatPath("tasks", [origin.task.name, "output"]) + pathText(origin.segments)
      case "status":
        this.depend(task, origin.task)
        return formatPath("tasks", [origin.task.name, "status"])
      case "item":
        return this.#instance(task, origin.task, "item") + pathText(origin.segments)
      case "index":
        return this.#instance(task, origin.task, "index")
      case "cel":
        return origin.parts.map((part) => (typeof part === "string" ? part : this.expression(task, part))).join("")
      case "text":
        return origin.parts
          .map((part) => (typeof part === "string" ? JSON.stringify(part) : `string(${this.expression(task, part)})`))
          .join(" + ")
      default:
        return origin satisfies never
    }
  }

  /** Returns the list of a fan-out as authors write it: `discover.files`, a path, or an expression. */
  writeList(task: GraphTask, list: unknown): Json {
    const origin = originOf<GraphTask>(list)
    if (origin === null) return this.write(task, list, `${task.name}: list`)
    const expression = this.expression(task, origin)
    if (!("segments" in origin) || origin.segments.some((segment) => typeof segment === "object"))
      return `\${{ ${expression} }}`
    return origin.kind === "output" ? origin.task.name + pathText(origin.segments) : expression
  }

  /** Makes the task depend on another, or the group around the task that is beside the other. */
  depend(task: GraphTask, other: GraphTask): void {
    for (let from: GraphTask | null = task; from !== null; from = from.scope.group) {
      const found = from.scope.tasks.get(other.name)
      if (found === undefined) continue
      if (found !== other) throw this.problem(task.place, task.name, shadowed(other, found))
      if (found === from) throw this.problem(task.place, task.name, `refers to ${other.name}, the group around it`)
      from.dependsOn.add(other.name)
      return
    }
    const group = other.scope.group?.name
    if (group === undefined)
      throw this.problem(task.place, task.name, `refers to ${other.name} of ${other.place}, which is in another graph`)
    throw this.problem(
      task.place,
      task.name,
      `refers to ${other.name}, which is inside the group ${group}; return it from the group, and use what the group returns`,
    )
  }

  /** Returns how a task names the item or index of a fan-out: its own, or that of the nearest fanned group around it. */
  #instance(task: GraphTask, fan: GraphTask, name: "item" | "index"): string {
    if (task === fan) return name
    let group = task.scope.group
    while (group !== null && !group.isFanned) group = group.scope.group
    if (group === fan) return `parent.${name}`
    const message =
      group === null
        ? `refers to the ${name} of ${fan.name}, which exists only in its own tasks`
        : `refers to the ${name} of ${fan.name}, but sees only that of ${group.name}, the nearest group with each around it`
    throw this.problem(task.place, task.name, message)
  }
}

const shadowed = ({ name, place }: GraphTask, found: GraphTask): string =>
  `refers to ${name} of ${place}, but a nearer task has the same name, at ${found.place}; give one of them another name`

const isPlain = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

const describe = (value: unknown): string =>
  typeof value === "object" && value !== null ? `a ${value.constructor.name}` : `a ${typeof value} (${String(value)})`
