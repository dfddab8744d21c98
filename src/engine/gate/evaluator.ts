// Evaluates expressions in bounded time and memory. Evaluates an expression synchronously if its cost is bounded by a small
// input, and otherwise in a worker thread, which is replaced when an evaluation takes too long or needs too much memory: an expression can
// fail its task, but never block or crash the server. Throws, or rejects with, an ExpressionError. The thread also parses outputs that
// are too large for the server's own thread: those that expressions read, and those that have a schema.

import { setImmediate as nextTurn } from "node:timers/promises"
import type { ThreadReply, ThreadRequest } from "./evaluator-worker.ts"
import { LimitedThread, LimitExceeded, moduleNextTo } from "../limited-thread.ts"
import type { Evaluator } from "../ports.ts"
import {
  evaluate,
  ExpressionError,
  expressionsOf,
  isBounded,
  type LargeText,
  MAX_OPERANDS,
  operandSize,
  narrowScope,
  parseExpression,
  render,
  textsOf,
  withOutputs,
  type ExpressionScope,
} from "../../core/expressions/expressions.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import { checkSchema } from "../../core/values/json-schema.ts"
import type { Template } from "../../core/model/workflow.ts"

/** Evaluates everything in this thread and without a limit: for simulations and tests. */
export const inlineEvaluator: Evaluator = {
  evaluate: (source, scope) =>
    scope.texts === undefined ? evaluate(source, scope) : parseTexts(scope).then((parsed) => evaluate(source, parsed)),
  render: (template, scope) =>
    scope.texts === undefined ? render(template, scope) : parseTexts(scope).then((parsed) => render(template, parsed)),
  check: async (schema, text) => checkSchema(schema, await parseText(text)),
  stop: async () => {},
}

const parseText = async (text: LargeText): Promise<Json> => JSON.parse(Buffer.from(await text.read()).toString()) as Json

const parseTexts = async (scope: ExpressionScope): Promise<ExpressionScope> => {
  const outputs = Object.entries(scope.texts!).map(async ([task, text]) => [task, await parseText(text)] as const)
  return withOutputs(scope, Object.fromEntries(await Promise.all(outputs)))
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
    check: (schema, text) => thread.check(schema, text),
    stop: () => thread.stop(),
  }
}

/** Operands above this size are evaluated in the thread: the library copies them, some functions many times. */
const MAX_INLINE = 256 * 1024

/** CPU time that the thread gets to parse a text, and to check it against a schema. */
const PARSED_BYTES_PER_MS = 5000
/** CPU time for the schema itself. */
const SCHEMA_MS = 1000

/** Returns true for an expression that may be evaluated on the server's own thread. */
const isSmall = (source: string, scope: ExpressionScope): boolean =>
  isBounded(source) && textsOf(source, scope).length === 0 && operandSize(source, scope, MAX_INLINE) <= MAX_INLINE

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

type Work = { source: string; scope: ExpressionScope } | { schema: JsonObject }
type Reply = Exclude<ThreadReply, { missing: string[] }>

const sizeOf = (texts: [task: string, text: LargeText][]): number => texts.reduce((sum, [, { bytes }]) => sum + bytes, 0)

/** Parses a long list in parts, between which other work gets its turn. */
const valueOf = async (reply: Exclude<Reply, { error: string }>): Promise<Json> => {
  if ("json" in reply) return JSON.parse(reply.json) as Json
  const items: Json[] = []
  for (const part of reply.lists) {
    for (const item of JSON.parse(part) as Json[]) items.push(item)
    await nextTurn()
  }
  return items
}

class EvaluatorThread {
  readonly #thread: LimitedThread<ThreadRequest, ThreadReply>
  /** The last request with texts. Such requests follow each other, so that one text at a time is in memory. */
  #lastWithTexts: Promise<unknown> = Promise.resolve()

  constructor(timeoutMs: number) {
    const module = moduleNextTo(import.meta.url, "./evaluator-worker")
    this.#thread = new LimitedThread({ module, timeoutMs, maxHeapMb: 256 })
  }

  async evaluate(source: string, scope: ExpressionScope): Promise<Json> {
    const texts = textsOf(source, scope)
    if (operandSize(source, scope, MAX_OPERANDS) + sizeOf(texts) > MAX_OPERANDS) {
      throw new ExpressionError(source, "it reads more than 16 MiB; compute it in a task, from the file $ORK_INPUT")
    }
    let reply: Reply
    try {
      reply = await this.#call({ source, scope: narrowScope(scope, parseExpression(source).refs) }, texts, 0)
    } catch (error) {
      if (error instanceof LimitExceeded) throw new ExpressionError(source, error.message)
      throw error
    }
    // Keeps the message of the thread, which names the expression already.
    if ("error" in reply) throw Object.assign(new ExpressionError(source, ""), { message: reply.error })
    return await valueOf(reply)
  }

  async check(schema: JsonObject, text: LargeText): Promise<string | null> {
    try {
      const reply = await this.#call({ schema }, [["output", text]], SCHEMA_MS)
      return "error" in reply ? reply.error : ((await valueOf(reply)) as string | null)
    } catch (error) {
      if (error instanceof LimitExceeded) return `it could not be checked: ${error.message}`
      throw error
    }
  }

  async #call(work: Work, texts: [task: string, text: LargeText][], moreMs: number): Promise<Reply> {
    if (texts.length === 0) return (await this.#thread.call({ ...work, texts: {}, contents: {} }, moreMs)) as Reply
    const reply = this.#lastWithTexts.then(() => this.#callWithTexts(work, texts, moreMs))
    this.#lastWithTexts = reply.catch(() => {})
    return await reply
  }

  /** Reads the texts that the thread does not have yet. */
  async #callWithTexts(work: Work, texts: [task: string, text: LargeText][], moreMs: number): Promise<Reply> {
    const keys = Object.fromEntries(texts.map(([task, { key }]) => [task, key]))
    const contents: { [key: string]: Uint8Array } = {}
    for (;;) {
      const reply = await this.#thread.call({ ...work, texts: keys, contents }, moreMs + sizeOf(texts) / PARSED_BYTES_PER_MS)
      if (!("missing" in reply)) return reply
      for (const [, text] of texts) if (reply.missing.includes(text.key)) contents[text.key] = await text.read()
    }
  }

  stop(): Promise<void> {
    return this.#thread.stop()
  }
}
