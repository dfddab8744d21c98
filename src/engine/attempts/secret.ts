import type { EngineOptions } from "../ports.ts"
import { TaskFailure } from "./task-failure.ts"
import { type Node, secretNames } from "../../core/model/workflow.ts"

/** Returns the value of a secret that a task names. Throws a `TaskFailure` that lists the sources when no source has it. */
export const readSecret = async ({ secret }: Pick<EngineOptions, "secret">, name: string): Promise<string> => {
  const value = await secret(name)
  if (value !== null) return value
  const sources = [`the variable ORK_SECRET_${name}`, `a file ${name} in ORK_SECRETS_DIR`, `${name} under secrets in ork.yaml`]
  throw new TaskFailure(`there is no secret ${name} where Ork runs: looked for ${sources.join(", ")}`)
}

/** Returns the secrets that the author of a task gave to it, by name. */
export const readSecrets = async (options: Pick<EngineOptions, "secret">, node: Node): Promise<Map<string, string>> => {
  const secrets = new Map<string, string>()
  for (const name of secretNames(node)) secrets.set(name, await readSecret(options, name))
  return secrets
}
