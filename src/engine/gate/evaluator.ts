// Evaluates expressions in bounded time and memory. Expressions whose cost is bounded by their small input are evaluated synchronously;
// others in a worker thread, which is replaced when an evaluation takes too long or needs too much memory. So an expression can fail its
// task, but never block or crash the server. Throws, or rejects with, an ExpressionError.

import type { EvaluateReply, EvaluateRequest } from "./evaluator-worker.ts"
import { LimitedThread, LimitExceeded, moduleNextTo } from "../limited-thread.ts"
import type { Evaluator } from "../ports.ts"
import {
  evaluate,
  ExpressionError,
  expressionsOf,
  isBounded,
  MAX_OPERANDS,
  operandSize,
  narrowScope,
  parseExpression,
  render,
  type ExpressionScope,
} from "../../core/expressions/expressions.ts"
import type { Json } from "../../core/model/json.ts"
import type { Template } from "../../core/model/workflow.ts"

/** Evaluates everything synchronously and without a limit: for simulations and tests. */
export const inlineEvaluator: Evaluator = {
  evaluate,
  render: (template, scope) => render(template, scope),
  stop: async () => {},
}

export const createEvaluator = ({ timeoutMs = 100 }: { timeoutMs?: number } = {}): Evaluator => {
  const thread = new EvaluatorThread(timeoutMs)
  const evaluateOne = (source: string, scope: ExpressionScope): Json | Promise<Json> =>
    isSmall(source, scope) ? evaluate(source, scope) : thread.evaluate(source, scope)
  return {
    evaluate: evaluateOne,
    render: (template, scope) => {
      const unbounded = [...new Set(expressionsOf(template).filter((source) => !isSmall(source, scope)))]
      return unbounded.length === 0 ? render(template, scope) : renderUnbounded(template, scope, unbounded, thread)
    },
    stop: () => thread.stop(),
  }
}

/** Operands above this size are evaluated in the thread: the library copies them, some functions many times. */
const MAX_INLINE = 256 * 1024

/** True for an expression that may be evaluated on the server's own thread. */
const isSmall = (source: string, scope: ExpressionScope): boolean =>
  isBounded(source) && operandSize(source, scope, MAX_INLINE) <= MAX_INLINE

/** Evaluates the unbounded expressions of a template in the thread, and the others here. */
const renderUnbounded = async (
  template: Template,
  scope: ExpressionScope,
  unbounded: string[],
  thread: EvaluatorThread,
): Promise<Json> => {
  const values = await Promise.all(unbounded.map(async (source) => [source, await thread.evaluate(source, scope)] as const))
  const evaluated = new Map(values)
  return render(template, scope, (source) => (evaluated.has(source) ? evaluated.get(source)! : evaluate(source, scope)))
}

class EvaluatorThread {
  readonly #thread: LimitedThread<EvaluateRequest, EvaluateReply>

  constructor(timeoutMs: number) {
    const module = moduleNextTo(import.meta.url, "./evaluator-worker")
    this.#thread = new LimitedThread({ module, timeoutMs, maxHeapMb: 256 })
  }

  async evaluate(source: string, scope: ExpressionScope): Promise<Json> {
    if (operandSize(source, scope, MAX_OPERANDS) > MAX_OPERANDS) {
      throw new ExpressionError(source, "it reads more than 16 MiB; compute it in a task, from the file $ORK_INPUT")
    }
    let reply: EvaluateReply
    try {
      reply = await this.#thread.call({ source, scope: narrowScope(scope, parseExpression(source).refs) })
    } catch (error) {
      if (error instanceof LimitExceeded) throw new ExpressionError(source, error.message)
      throw error
    }
    if ("value" in reply) return reply.value
    // Keeps the message of the thread, which names the expression already.
    throw Object.assign(new ExpressionError(source, ""), { message: reply.error })
  }

  stop(): Promise<void> {
    return this.#thread.stop()
  }
}
