// `ork types FILE|FOLDER…`: writes a module that declares the params of workflow files, so that `yaml(FILE)` of a program is typed.

import { writeFile } from "node:fs/promises"
import { relative, resolve } from "node:path"
import { isObject, type Json, type JsonObject } from "../../../core/values/json.ts"
import type { ParamSpec } from "../../../core/model/workflow.ts"
import type { Context } from "../../target/context.ts"
import { loadDefinition } from "../../target/definition.ts"
import { listDefinitions } from "../../target/definition-files.ts"
import { loadConfig } from "../../target/load-config.ts"
import { print } from "../../terminal/output.ts"
import { plural } from "../../terminal/text.ts"

export interface TypesOptions {
  out: string
}

export const types = async (context: Context, paths: string[], { out }: TypesOptions): Promise<number> => {
  const { workerProfiles } = await loadConfig(context, {})
  const files = await listDefinitions(context, paths)
  const declared: string[] = []
  for (const file of files) {
    const { workflow } = await loadDefinition(context.cwd, file, workerProfiles)
    declared.push(declarationOf(relative(context.cwd, resolve(context.cwd, file)), workflow.params))
  }
  await writeFile(resolve(context.cwd, out), moduleOf(declared))
  print(context, `wrote ${out} for ${plural(files.length, "workflow")}`)
  return 0
}

const moduleOf = (declarations: readonly string[]): string =>
  `// Written by \`ork types\`: the params of workflow files, for \`yaml\`.
import type {} from "ork"

declare module "ork" {
  interface YamlWorkflows {
${declarations.join("\n")}
  }
}
`

const declarationOf = (file: string, params: readonly ParamSpec[]): string => {
  const key = JSON.stringify(file)
  if (params.length === 0) return `    ${key}: { params: { [name: string]: never } }`
  const fields = params.flatMap(({ description, ...spec }) => [
    ...(description === undefined ? [] : [`        /** ${description.replaceAll("*/", "*\\/").replaceAll(/\s+/g, " ")} */`]),
    `        ${fieldName(spec.name)}${spec.required && spec.default === undefined ? "" : "?"}: ${typeOf(spec)}`,
  ])
  return [`    ${key}: {`, "      params: {", ...fields, "      }", "    }"].join("\n")
}

const fieldName = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name))

/** Returns the type of a param. One that is not required may be null. */
const typeOf = ({ type, enum: choices, schema, required }: Omit<ParamSpec, "description">): string => {
  const own = schemaType({ ...schema, type, ...(choices !== undefined && { enum: choices }) })
  return required ? own : `${own} | null`
}

/** Returns the TypeScript type of a JSON Schema, as far as types can express it. */
const schemaType = (schema: Json | undefined): string => {
  if (!isObject(schema)) return "unknown"
  const { type, enum: choices, items } = schema
  if (Array.isArray(choices) && choices.length > 0) return choices.map((choice) => JSON.stringify(choice)).join(" | ")
  switch (type) {
    case "string":
    case "date":
      return "string"
    case "integer":
    case "number":
      return "number"
    case "boolean":
      return "boolean"
    case "array":
      return `readonly (${schemaType(items)})[]`
    case "object":
      return objectType(schema)
    default:
      return "unknown"
  }
}

const objectType = ({ properties, required }: JsonObject): string => {
  if (!isObject(properties)) return "{ readonly [name: string]: unknown }"
  const needed = new Set(Array.isArray(required) ? required : [])
  const fields = Object.entries(properties).map(
    ([name, property]) => `${fieldName(name)}${needed.has(name) ? "" : "?"}: ${schemaType(property)}`,
  )
  return `{ ${fields.join("; ")} }`
}
