// The thread where expressions run that may take long. It answers one request at a time; engine/gate/evaluator.ts ends it when an
// answer does not come.

import { parentPort } from "node:worker_threads"
import { messageOf } from "../../core/model/error-message.ts"
import { warmUp } from "../../core/expressions/cel.ts"
import { evaluate, type ExpressionScope } from "../../core/expressions/expressions.ts"
import type { Json } from "../../core/model/json.ts"

export interface EvaluateRequest {
  source: string
  scope: ExpressionScope
}

export type EvaluateReply = "ready" | { value: Json } | { error: string }

const port = parentPort
if (port === null) throw new Error("evaluator-worker.ts is started by engine/gate/evaluator.ts only")

const answer = ({ source, scope }: EvaluateRequest): EvaluateReply => {
  try {
    return { value: evaluate(source, scope) }
  } catch (error) {
    return { error: messageOf(error) }
  }
}

port.on("message", (request: EvaluateRequest) => port.postMessage(answer(request)))
// Loading the library is not part of anybody's 100 ms.
warmUp()
port.postMessage("ready" satisfies EvaluateReply)
