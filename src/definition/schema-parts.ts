// What the schemas of a definition are made of: objects that know their fields and name the nearest one, alternatives in words.

import { z } from "zod"
import { nearest } from "../core/model/nearest.ts"

/** What people write out of habit from elsewhere. */
const FIELD_SYNONYMS: Readonly<Record<string, string>> = {
  dependencies: "depends_on",
  depends: "depends_on",
  needs: "depends_on",
  requires: "depends_on",
  upstream: "depends_on",
  cmd: "command",
  script: "command",
  run: "command",
  shell: "command",
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
 * An object that knows its fields. Its message for unknown ones carries the nearest known field of each, line by line, in the
 * order of the issue's keys; definition/schema-issues.ts takes it apart.
 */
export const strictObject = <Shape extends z.ZodRawShape>(shape: Shape) => {
  const known = Object.keys(shape)
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === "unrecognized_keys"
        ? issue.keys
            .slice(0, MAX_SUGGESTED)
            .map((key) => suggest(key, known) ?? "")
            .join("\n")
        : undefined,
  })
}

/** Beyond these nobody reads, and a document may hold 100,000. */
const MAX_SUGGESTED = 100

const suggest = (key: string, known: string[]): string | undefined => {
  const habit = Object.hasOwn(FIELD_SYNONYMS, key) ? FIELD_SYNONYMS[key]! : undefined
  return habit !== undefined && known.includes(habit) ? habit : nearest(key, known)
}

/** Alternatives whose names make the message: "must be A or B". */
export const either = <Options extends readonly [z.ZodType, z.ZodType, ...z.ZodType[]]>(what: string, options: Options) =>
  z.union(options, { error: () => `must be ${what}` })

export const text = z.string()
export const count = z.int().min(1).max(1_000_000)
export const duration = either('a duration: seconds or a text such as "90s", "10m", "2h", "1d"', [z.number(), text])
export const cpu = either('cores such as 2 or "500m"', [z.number(), text])
export const memory = either('bytes or a text such as "512Mi"', [z.number(), text])
export const record = <Value extends z.ZodType>(value: Value) => z.record(z.string(), value)
export const json = z.unknown()
export const object = record(json)
