// Tables of the fields of a definition, from its schema and the descriptions of its fields.

import { z } from "zod"
import * as descriptions from "../../../src/definition/field-descriptions.ts"
import type { FieldDescription } from "../../../src/definition/field-descriptions.ts"
import { taskSchema, workflowSchema } from "../../../src/definition/workflow-schema.ts"
import { codeText, markdownTable } from "./table.ts"

interface JsonSchema {
  $ref?: string
  title?: string
  type?: string | string[]
  enum?: unknown[]
  const?: unknown
  anyOf?: JsonSchema[]
  items?: JsonSchema
  properties?: Record<string, JsonSchema>
  additionalProperties?: JsonSchema | boolean
  minimum?: number
  maximum?: number
}

const schemaOf = (schema: z.ZodType): JsonSchema =>
  z.toJSONSchema(schema, { io: "input", unrepresentable: "any", target: "draft-07" }) as JsonSchema

export const fieldTables = (): Record<string, string> => {
  const workflow = schemaOf(workflowSchema).properties!
  const task = taskProperties(schemaOf(taskSchema))
  const properties = (field: JsonSchema): Record<string, JsonSchema> => objectIn(field)!.properties!
  return {
    "workflow fields": fieldTable(workflow, descriptions.WORKFLOW_FIELDS),
    "task fields": fieldTable(task, descriptions.TASK_FIELDS),
    "retry fields": fieldTable(properties(task["retry"]!), descriptions.RETRY_FIELDS),
    "schedule fields": fieldTable(properties(workflow["schedule"]!), descriptions.SCHEDULE_FIELDS),
    "trigger fields": fieldTable(properties(workflow["triggers"]!), descriptions.TRIGGER_FIELDS),
    "notify fields": fieldTable(properties(workflow["notify"]!), descriptions.NOTIFY_FIELDS),
    "http fields": fieldTable(properties(task["http"]!), descriptions.HTTP_FIELDS),
    "docker fields": fieldTable(properties(task["docker"]!), descriptions.DOCKER_FIELDS),
    "kubernetes fields": fieldTable(properties(task["kubernetes"]!), descriptions.KUBERNETES_FIELDS),
    "security fields": fieldTable(properties(properties(task["kubernetes"]!)["security"]!), descriptions.SECURITY_FIELDS),
    "slurm fields": fieldTable(properties(task["slurm"]!), descriptions.SLURM_FIELDS),
    "cloudrun fields": fieldTable(properties(task["cloudrun"]!), descriptions.CLOUDRUN_FIELDS),
  }
}

/** Returns the fields of a task. Its schema refers to itself, because groups contain tasks. */
const taskProperties = (schema: JsonSchema & { definitions?: Record<string, JsonSchema> }): Record<string, JsonSchema> =>
  schema.properties ?? Object.values(schema.definitions!)[0]!.properties!

/** Returns the object among the alternatives of a field. */
const objectIn = (schema: JsonSchema): JsonSchema | undefined =>
  schema.properties === undefined ? schema.anyOf?.map(objectIn).find((found) => found !== undefined) : schema

const fieldTable = (
  properties: Readonly<Record<string, JsonSchema>>,
  fields: Readonly<Record<string, FieldDescription>>,
): string =>
  markdownTable(
    ["field", "type", "default", "meaning"],
    Object.entries(fields).map(([name, { about, default: value = "", see }]) => [
      codeText(name),
      typeText(properties[name]!),
      value,
      see === undefined ? about : `${about}: [details](${see})`,
    ]),
  )

const TYPE_NAMES: Readonly<Record<string, string>> = {
  string: "text",
  number: "number",
  integer: "number",
  boolean: "true or false",
  null: "null",
  object: "map",
}

const typeText = (schema: JsonSchema): string => {
  const { $ref, title, type, enum: values, anyOf, items, properties, additionalProperties, minimum, maximum } = schema
  if ($ref !== undefined) return "task"
  if (title !== undefined) return title
  if (values !== undefined) return values.map((value) => codeText(String(value))).join(", ")
  if (schema.const !== undefined) return codeText(JSON.stringify(schema.const))
  if (anyOf !== undefined) return [...new Set(anyOf.map(typeText))].join(" or ")
  if (Array.isArray(type)) return [...new Set(type.map((each) => TYPE_NAMES[each]!))].join(" or ")
  if (type === "array") return items?.anyOf === undefined || items.title ? `list of ${plural(typeText(items ?? {}))}` : "list"
  if (properties !== undefined) return "map"
  if (type === "object" && typeof additionalProperties === "object" && additionalProperties.$ref !== undefined)
    return "map of tasks"
  if (type === "integer" && minimum !== undefined && maximum !== undefined && maximum <= 1000) return `${minimum} to ${maximum}`
  return type === undefined ? "any" : TYPE_NAMES[type]!
}

const plural = (type: string): string =>
  /^(?:text|task|map|number)$/.test(type) ? `${type}s` : type === "status" ? "statuses" : type
