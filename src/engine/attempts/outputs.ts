// An output that the engine itself makes: small ones inline, larger ones as an object of the attempt.

import type { EngineOptions } from "../ports.ts"
import { TaskFailure } from "./task-failure.ts"
import type { Output } from "../../core/model/change.ts"
import type { Json } from "../../core/model/json.ts"
import { attemptPrefix } from "../../objects/objects.ts"
import type { TaskClaim } from "../../store/contract/store.ts"

const INLINE_LIMIT = 64 * 1024

export const outputOf = async (
  { objects, maxOutputBytes }: Pick<EngineOptions, "objects" | "maxOutputBytes">,
  claim: Pick<TaskClaim, "runId" | "attemptId">,
  task: string,
  value: Json,
): Promise<Output> => {
  const text = Buffer.from(JSON.stringify(value))
  if (text.length <= INLINE_LIMIT) return { inline: value }
  if (text.length > maxOutputBytes) {
    throw new TaskFailure(`the output of ${text.length} bytes is larger than the ${maxOutputBytes} allowed (ORK_MAX_OUTPUT)`)
  }
  const key = `${attemptPrefix(claim.runId, task, claim.attemptId)}output.json`
  await objects.put(key, text)
  return { key, bytes: text.length }
}
