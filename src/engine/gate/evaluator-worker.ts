// The worker thread that evaluates unbounded expressions, one request at a time. engine/limited-thread.ts terminates it when a reply takes
// too long.

import { parentPort } from "node:worker_threads"
import { messageOf } from "../../core/model/error-message.ts"
import { warmUp } from "../../core/expressions/cel.ts"
import { evaluate, type ExpressionScope } from "../../core/expressions/expressions.ts"
import type { Json } from "../../core/model/json.ts"

export interface EvaluateRequest {
  source: string
  scope: ExpressionScope
}

export type EvaluateReply = { value: Json } | { error: string }

const port = parentPort
if (port === null) throw new Error("evaluator-worker.ts is started by engine/gate/evaluator.ts only")

const replyTo = ({ source, scope }: EvaluateRequest): EvaluateReply => {
  try {
    return { value: evaluate(source, scope) }
  } catch (error) {
    return { error: messageOf(error) }
  }
}

port.on("message", (request: EvaluateRequest) => port.postMessage(replyTo(request)))
// Loads the library before the first request, so that it does not count against its time limit.
warmUp()
port.postMessage("ready")
