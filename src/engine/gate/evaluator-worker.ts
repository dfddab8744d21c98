// The worker thread that evaluates unbounded expressions and parses large outputs, one request at a time. engine/limited-thread.ts
// terminates it when a reply takes too long.

import { getHeapStatistics } from "node:v8"
import { parentPort } from "node:worker_threads"
import { messageOf } from "../../core/values/error-message.ts"
import { warmUp } from "../../core/expressions/cel.ts"
import {
  evaluate,
  ExpressionError,
  type ExpressionScope,
  MAX_OPERANDS,
  withOutputs,
} from "../../core/expressions/expressions.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import { checkSchema } from "../../core/values/json-schema.ts"
import { parseInPieces } from "../../core/values/large-json.ts"

/** Reads the texts with the given keys, by task. `contents`: those that the thread did not have before, by key. */
interface TextRequest {
  texts: { readonly [task: string]: string }
  contents: { readonly [key: string]: Uint8Array }
}

/** Evaluates an expression, or checks the only text against a schema. */
export type ThreadRequest = TextRequest & ({ source: string; scope: ExpressionScope } | { schema: JsonObject })

/** `json`: the value, or a list in parts. `missing`: keys of texts that the request must contain. */
export type ThreadReply = { json: string } | { lists: string[] } | { error: string } | { missing: string[] }

/** Larger values are rejected: parsing them would block the server. */
const MAX_VALUE = 4 * 1024 * 1024
/** Memory that parsing may use; one more piece of a text fits below the limit of the thread, at which the process could end. */
const MAX_PARSED_BYTES = 224 * 1024 * 1024
/** Length of a part of a large list. */
const PART_LENGTH = 1024 * 1024

/** Parsed texts, so that the instances of a fan-out parse the outputs that they read once. The oldest leave first. */
class ParsedTexts {
  readonly #texts = new Map<string, { value: Json; bytes: number }>()
  #bytes = 0

  /** Returns the keys of texts that are missing. Keeps the others while new ones are added. */
  missing(keys: readonly string[]): string[] {
    for (const key of keys) {
      const text = this.#texts.get(key)
      if (text === undefined) continue
      this.#texts.delete(key)
      this.#texts.set(key, text)
    }
    return keys.filter((key) => !this.#texts.has(key))
  }

  add(key: string, content: Uint8Array): void {
    const bytes = content.byteLength
    for (const [oldest, text] of this.#texts) {
      if (this.#bytes + bytes <= MAX_OPERANDS) break
      this.#texts.delete(oldest)
      this.#bytes -= text.bytes
    }
    const text = Buffer.from(content.buffer, content.byteOffset, bytes)
    this.#texts.set(key, { value: parseInPieces(text, { check: checkMemory }), bytes })
    this.#bytes += bytes
  }

  get(key: string): Json {
    return this.#texts.get(key)!.value
  }
}

const checkMemory = (): void => {
  if (getHeapStatistics().used_heap_size > MAX_PARSED_BYTES) throw new Error("it needed more than 256 MB of memory")
}

const port = parentPort
if (port === null) throw new Error("evaluator-worker.ts is started by engine/gate/evaluator.ts only")

const parsed = new ParsedTexts()

const replyTo = (request: ThreadRequest): ThreadReply => {
  const { texts, contents } = request
  const missing = parsed.missing(Object.values(texts))
  const unknown = missing.filter((key) => contents[key] === undefined)
  if (unknown.length > 0) return { missing: unknown }
  try {
    for (const key of missing) parsed.add(key, contents[key]!)
    const outputs = Object.fromEntries(Object.entries(texts).map(([task, key]) => [task, parsed.get(key)]))
    if ("schema" in request) return { json: JSON.stringify(checkSchema(request.schema, Object.values(outputs)[0]!)) }
    return encode(request.source, evaluate(request.source, withOutputs(request.scope, outputs)))
  } catch (error) {
    const isNamed = error instanceof ExpressionError || "schema" in request
    return { error: messageOf(isNamed ? error : new ExpressionError(request.source, messageOf(error))) }
  }
}

const encode = (source: string, value: Json): ThreadReply => {
  if (isShort(value)) return { json: JSON.stringify(value) }
  const lists = Array.isArray(value) ? partsOf(value) : null
  if (lists !== null) return { lists }
  throw new ExpressionError(source, "its value is larger than 4 MiB; let the task read what it needs from the file $ORK_INPUT")
}

/** Returns whether the JSON of a value has about MAX_VALUE characters at most. */
const isShort = (value: Json): boolean => {
  let length = 0
  const open: Json[] = [value]
  for (let part = open.pop(); part !== undefined && length <= MAX_VALUE; part = open.pop()) {
    length += typeof part === "string" ? part.length + 3 : 3
    if (typeof part !== "object" || part === null) continue
    if (Array.isArray(part)) for (const item of part) open.push(item)
    else for (const [key, item] of Object.entries(part)) open.push(key, item)
  }
  return length <= MAX_VALUE
}

/** Returns a list as several lists in JSON; null if an item is too large. */
const partsOf = (list: readonly Json[]): string[] | null => {
  const parts: string[] = []
  let part = ""
  for (const item of list) {
    if (!isShort(item)) return null
    const json = JSON.stringify(item)
    if (part.length + json.length > PART_LENGTH && part !== "") {
      parts.push(`[${part}]`)
      part = ""
    }
    part += part === "" ? json : `,${json}`
  }
  return [...parts, `[${part}]`]
}

port.on("message", (request: ThreadRequest) => port.postMessage(replyTo(request)))
// Loads the library before the first request, so that it does not count against its time limit.
warmUp()
port.postMessage("ready")
