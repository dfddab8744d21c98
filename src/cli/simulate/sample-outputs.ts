// Outputs that tasks need to have so that the expressions of other tasks hold: by their schema, otherwise by what expressions read.

import type { Json, JsonObject } from "../../core/values/json.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"

/** The parts of a value that expressions read; `list`: it is a list, with items of this shape. */
interface Shape {
  fields: Map<string, Shape>
  list: Shape | null
}

const ITEMS = 2

const REFERENCE = /\btasks(?:\.([A-Za-z_]\w*)|\[\\?["']([^"'\\]+)\\?["']\])\.output((?:\.[A-Za-z_]\w*)*)(\()?/g
/** Functions over the items of a list, and the name of an item. */
const OVER_ITEMS = /^\((\w+),/

/** Returns an output for each task whose output is read or has a schema. */
export const sampleOutputs = (workflow: CompiledWorkflow): Map<string, Json> => {
  const shapes = new Map<string, Shape>()
  for (const node of workflow.nodes) readReferences(workflow, node, shapes)
  const outputs = new Map<string, Json>()
  for (const { name, output, fan } of workflow.nodes) {
    const shape = shapes.get(name)
    if (output !== undefined) outputs.set(name, sampleOfSchema(output))
    else if (shape !== undefined) outputs.set(name, sampleOfShape((fan === undefined ? null : shape.list) ?? shape))
  }
  return outputs
}

const readReferences = (workflow: CompiledWorkflow, node: Node, shapes: Map<string, Shape>): void => {
  const foreach = node.fan?.foreach
  const text = JSON.stringify(node)
  for (const match of text.matchAll(REFERENCE)) {
    const name = taskInScope(workflow, node, match[1] ?? match[2]!)
    if (name === null) continue
    const path = match[3]!.split(".").slice(1)
    const called = match[4] === undefined ? undefined : path.pop()
    if (!shapes.has(name)) shapes.set(name, newShape())
    const shape = path.reduce(fieldOf, shapes.get(name)!)
    const rest = text.slice(match.index + match[0].length - 1)
    const [, item] = (called !== undefined && OVER_ITEMS.exec(rest)) || []
    if (item !== undefined) addFields((shape.list ??= newShape()), rest, item)
    else if (called === "size") shape.list ??= newShape()
    if (isWhole(foreach, match[0])) addFields((shape.list ??= newShape()), text, "item")
  }
}

const newShape = (): Shape => ({ fields: new Map(), list: null })

const fieldOf = (shape: Shape, field: string): Shape => {
  if (!shape.fields.has(field)) shape.fields.set(field, newShape())
  return shape.fields.get(field)!
}

/** Adds the fields of a variable that a text reads. */
const addFields = (shape: Shape, text: string, variable: string): void => {
  for (const [, path] of text.matchAll(new RegExp(`(?<![.\\w])${variable}((?:\\.[A-Za-z_]\\w*)+)(?!\\w*\\()`, "g")))
    path!.split(".").slice(1).reduce(fieldOf, shape)
}

const isWhole = (foreach: unknown, reference: string): boolean =>
  JSON.stringify(foreach) === JSON.stringify({ expr: reference })

/** Returns the full name of a task that a node names, which is in its group or in one around it; null: there is none. */
const taskInScope = ({ nodes }: CompiledWorkflow, node: Node, short: string): string | null => {
  for (let group = node.group; ; group = nodes[group]!.group) {
    const name = group === null ? short : `${nodes[group]!.name}.${short}`
    if (nodes.some((each) => each.name === name)) return name
    if (group === null) return null
  }
}

/** Returns a sample of a shape. A number suits most expressions: it can be compared, added and made a text. */
const sampleOfShape = ({ fields, list }: Shape): Json => {
  if (list !== null)
    return Array.from({ length: ITEMS }, (_, i) => (list.fields.size === 0 ? `item ${i}` : sampleOfShape(list)))
  if (fields.size === 0) return ITEMS
  return Object.fromEntries([...fields].map(([name, shape]) => [name, sampleOfShape(shape)]))
}

const sampleOfSchema = (schema: JsonObject): Json => {
  if (Array.isArray(schema["enum"])) return schema["enum"][0]!
  for (const given of ["const", "default"]) if (schema[given] !== undefined) return schema[given]
  const type = Array.isArray(schema["type"]) ? schema["type"][0] : schema["type"]
  switch (type) {
    case "object":
      return Object.fromEntries(
        Object.entries((schema["properties"] ?? {}) as JsonObject).map(([name, value]) => [
          name,
          sampleOfSchema(value as JsonObject),
        ]),
      )
    case "array":
      return Array.from({ length: ITEMS }, () => sampleOfSchema((schema["items"] ?? {}) as JsonObject))
    case "integer":
    case "number":
      return Math.max(ITEMS, Number(schema["minimum"] ?? ITEMS))
    case "boolean":
      return true
    case "null":
      return null
    default:
      return "text"
  }
}
