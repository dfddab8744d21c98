// A secret that a task names, or a fault of the task that says where it was looked for.

import type { EngineOptions } from "../ports.ts"
import { TaskFailure } from "./task-failure.ts"

export const secretOf = async ({ secret }: Pick<EngineOptions, "secret">, name: string): Promise<string> => {
  const value = await secret(name)
  if (value !== null) return value
  const places = [`the variable ORK_SECRET_${name}`, `a file ${name} in ORK_SECRETS_DIR`, `${name} under secrets in ork.yaml`]
  throw new TaskFailure(`there is no secret ${name} where Ork runs: looked for ${places.join(", ")}`)
}
