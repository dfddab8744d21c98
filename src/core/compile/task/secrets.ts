// Secrets `{ secret: NAME }` in the fields of a request. They are extracted at compile time, so that only the author can name a secret,
// not the output of a task through an expression. Their values are inserted when the task is dispatched.

import type { Json } from "../../values/json.ts"
import { isObject } from "../../values/json.ts"
import type { Path } from "../../model/problems.ts"
import type { SecretField } from "../../model/workflow.ts"
import type { CompileContext } from "../context/context.ts"

/** Fields that may contain secrets. */
const SECRET_FIELDS: ReadonlySet<string> = new Set(["url", "headers", "body"])

/** Returns the field with null in place of its secrets, and the secrets with their positions. */
export const extractSecrets = (
  context: CompileContext,
  field: string,
  value: Json,
  path: Path,
): { rest: Json; secrets: SecretField[] } => {
  const secrets: SecretField[] = []
  if (!SECRET_FIELDS.has(field)) return { rest: value, secrets }
  const walk = (part: Json, at: string[]): Json => {
    if (Array.isArray(part)) return part.map((item, i) => walk(item, [...at, String(i)]))
    if (!isObject(part)) return part
    if (!isSecret(part)) return Object.fromEntries(Object.entries(part).map(([key, item]) => [key, walk(item, [...at, key])]))
    const literal = (text: string): string => context.literal(text, [...path, ...at])
    const { secret, prefix } = part
    secrets.push({ at: [field, ...at], secret: literal(secret), ...(prefix !== undefined && { prefix: literal(prefix) }) })
    return null
  }
  return { rest: walk(value, []), secrets }
}

const isSecret = (value: { [key: string]: unknown }): value is { secret: string; prefix?: string } =>
  typeof value["secret"] === "string" &&
  Object.entries(value).every(([key, item]) => key === "secret" || (key === "prefix" && typeof item === "string"))
