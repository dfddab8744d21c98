// Building blocks of the schemas of a definition: objects that suggest the nearest field, alternatives with a description, quantities.

import { z } from "zod"
import { nearest } from "../core/values/nearest.ts"
import { CPU_HINT, DURATION_HINT, MEMORY_HINT } from "../core/values/quantities.ts"
import type { FieldDescriptions } from "./field-descriptions.ts"

/** Names of fields in other systems. */
const FIELD_SYNONYMS: Readonly<Record<string, string>> = {
  dependencies: "depends_on",
  depends: "depends_on",
  needs: "depends_on",
  requires: "depends_on",
  upstream: "depends_on",
  cmd: "command",
  script: "command",
  run: "command",
  args: "command",
  when: "if",
  condition: "if",
  trigger_rule: "run_when",
  environment: "env",
  cwd: "working_dir",
  workdir: "working_dir",
  with_items: "foreach",
  for_each: "foreach",
  loop: "foreach",
  matrix: "foreach",
  replicas: "parallel",
  parallelism: "parallel",
  pool: "queue",
  id: "name",
  cron: "schedule",
  parameters: "params",
  steps: "tasks",
  jobs: "tasks",
  max_concurrency: "concurrency",
  attempts: "max_attempts",
  delay: "base_delay",
  tz: "timezone",
}

/**
 * Makes an object schema that rejects unknown fields. The message of that issue has one line for each unknown field, in the order of
 * the issue's keys: the suggested field, or nothing. schema-issues.ts reads it.
 */
export const strictObject = <Shape extends z.ZodRawShape>(shape: Shape) => {
  const known = Object.keys(shape)
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === "unrecognized_keys"
        ? issue.keys
            .slice(0, MAX_SUGGESTIONS)
            .map((key) => suggest(key, known) ?? "")
            .join("\n")
        : undefined,
  })
}

/** Bounds the work for a document with very many unknown fields. */
const MAX_SUGGESTIONS = 100

const suggest = (key: string, known: string[]): string | undefined => {
  const synonym = Object.hasOwn(FIELD_SYNONYMS, key) ? FIELD_SYNONYMS[key]! : undefined
  return synonym !== undefined && known.includes(synonym) ? synonym : nearest(key, known)
}

/** Makes a strict object whose fields have the descriptions that editors and the reference show. */
export const describedObject = <Shape extends Record<string, z.ZodType>>(shape: Shape, fields: FieldDescriptions<Shape>) =>
  strictObject(describedShape(shape, fields))

export const describedShape = <Shape extends Record<string, z.ZodType>>(
  shape: Shape,
  fields: FieldDescriptions<Shape>,
): Shape =>
  Object.fromEntries(
    Object.entries(shape).map(([name, schema]) => {
      const { about, default: value } = fields[name]!
      return [name, schema.meta({ description: value === undefined ? about : `${about}. Default: ${value}` })]
    }),
  ) as Shape

/** Makes a union whose message is "must be" and the description of the alternatives. */
export const either = <Options extends readonly [z.ZodType, z.ZodType, ...z.ZodType[]]>(
  description: string,
  options: Options,
) => z.union(options, { error: () => `must be ${description}` })

export const text = z.string()
export const count = z.int().min(1).max(1_000_000)
export const duration = either(`a duration: ${DURATION_HINT}`, [z.number(), text]).meta({ title: "duration" })
export const cpu = either(CPU_HINT, [z.number(), text]).meta({ title: "cores" })
export const memory = either(MEMORY_HINT, [z.number(), text]).meta({ title: "memory" })
export const record = <Value extends z.ZodType>(value: Value) => z.record(z.string(), value)
export const json = z.unknown()
export const object = record(json)
