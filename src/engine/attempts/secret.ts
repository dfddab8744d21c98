import type { EngineOptions } from "../ports.ts"
import { TaskFailure } from "./task-failure.ts"
import { isObject, type Json, type JsonObject } from "../../core/values/json.ts"
import { type Node, secretNames } from "../../core/model/workflow.ts"

/** Returns the value of a secret that a task names. Throws a `TaskFailure` that lists the sources when no source has it. */
export const readSecret = async ({ secret }: Pick<EngineOptions, "secret">, name: string): Promise<string> => {
  const value = await secret(name)
  if (value !== null) return value
  const sources = [`the variable ORK_SECRET_${name}`, `a file ${name} in ORK_SECRETS_DIR`, `${name} under secrets in ork.yaml`]
  throw new TaskFailure(`there is no secret ${name} where Ork runs: looked for ${sources.join(", ")}`)
}

/** Inserts the secrets of a node into the fields of its executor, and returns their values. Throws like `readSecret`. */
export const insertSecrets = async (
  options: Pick<EngineOptions, "secret">,
  fields: { [field: string]: Json },
  { secretFields = [] }: Pick<Node, "secretFields">,
): Promise<string[]> => {
  const secrets: string[] = []
  for (const { at, secret, prefix } of secretFields) {
    const value = await readSecret(options, secret)
    const [field, ...path] = at as [string, ...string[]]
    fields[field] = withValue(fields[field] ?? null, path, `${prefix ?? ""}${value}`)
    secrets.push(value)
  }
  return secrets
}

/**
 * Returns a copy of `whole` with `value` at the given path. Copies on the way to the value: rendered literals are shared with the compiled
 * node, which never contains a secret.
 */
const withValue = (whole: Json, [key, ...rest]: string[], value: string): Json => {
  if (key === undefined) return value
  if (Array.isArray(whole)) return whole.map((item, i) => (String(i) === key ? withValue(item, rest, value) : item))
  const object: JsonObject = isObject(whole) ? whole : {}
  return { ...object, [key]: withValue(object[key] ?? null, rest, value) }
}

/**
 * Returns the values of a task's secrets, to mask them in what an attempt received after its start. Leaves out secrets that no longer exist
 * or cannot be read now: the work is done, and its result must not be lost.
 */
export const readForMasking = async ({ secret, log }: Pick<EngineOptions, "secret" | "log">, node: Node): Promise<string[]> => {
  const values: string[] = []
  for (const name of secretNames(node)) {
    try {
      values.push((await secret(name)) ?? "")
    } catch (error) {
      log.warn({ secret: name, error: String(error) }, "failed to read a secret; its value is not masked")
    }
  }
  return values.filter((value) => value !== "")
}
