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
