// Reads and writes outputs of tasks. Small outputs are inline; larger ones are objects of their attempt.

import type { EngineOptions } from "../ports.ts"
import { TaskFailure } from "./task-failure.ts"
import { type Output, MAX_INLINE_OUTPUT_BYTES } from "../../core/model/change.ts"
import { type LargeText, MAX_OPERANDS } from "../../core/expressions/expressions.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import { checkSchema } from "../../core/values/json-schema.ts"
import { attemptPrefix, type ObjectStore } from "../../objects/objects.ts"
import { readOutputObject } from "../../objects/shared/read-object.ts"
import type { TaskClaim } from "../../store/contract/store.ts"
import { BoundedMap } from "../../core/values/bounded-map.ts"

/** Larger outputs are parsed in the evaluator's thread only: parsing them here would block the server. */
const PARSE_LIMIT = 256 * 1024

export type StoredOutput = Extract<Output, { key: string }>

export const isLarge = (output: Output | null): output is StoredOutput =>
  output !== null && "key" in output && output.bytes > PARSE_LIMIT

/** All instances of a fan-out read the same outputs. */
const MAX_CACHED = 8

export class OutputReader {
  readonly #objects: Pick<ObjectStore, "get">
  readonly #cache = new BoundedMap<string, Promise<Json>>(MAX_CACHED)

  constructor(objects: Pick<ObjectStore, "get">) {
    this.#objects = objects
  }

  /** Returns the value of an output, or null without an output. Keeps large values in a small cache. */
  value(output: Output | null): Json | Promise<Json> {
    if (output === null) return null
    if ("inline" in output) return output.inline
    const cached = this.#cache.get(output.key)
    if (cached !== undefined) return cached
    const reading = readLargeOutput(this.#objects, output).then(parseJson)
    this.#cache.set(output.key, reading)
    reading.catch(() => this.#cache.delete(output.key))
    return reading
  }

  /** Returns the text of a large output, which is read when it is needed. */
  text(output: StoredOutput): LargeText {
    return { ...output, read: () => readLargeOutput(this.#objects, output) }
  }
}

const parseJson = (bytes: Uint8Array): Json => JSON.parse(Buffer.from(bytes).toString("utf8")) as Json

/** Reads a large output. Throws a `TaskFailure` if the object store has lost it, or a part of it. */
const readLargeOutput = async (objects: Pick<ObjectStore, "get">, output: StoredOutput): Promise<Uint8Array> => {
  const found = await objects.get(output.key)
  if (found === null) throw new TaskFailure(`the output ${output.key} is gone from the object store`)
  checkLength(output, found.byteLength)
  return found
}

/** Yields the bytes of a large output. Throws a `TaskFailure` if the object store has lost it, or a part of it. */
export async function* outputBytes(objects: Pick<ObjectStore, "getRange">, output: StoredOutput): AsyncGenerator<Uint8Array> {
  let length = 0
  for await (const piece of readOutputObject(objects, output.key, (message) => new TaskFailure(message))) {
    length += piece.byteLength
    yield piece
  }
  checkLength(output, length)
}

const checkLength = ({ key, bytes }: StoredOutput, length: number): void => {
  if (length === bytes) return
  throw new TaskFailure(
    `the object store has lost a part of the output ${key}: it has ${length} of ${bytes} bytes; retry the task that wrote it`,
  )
}

/** Returns why an output cannot be accepted; null when it fits its schema. */
export const outputProblem = async (
  { outputs, evaluator }: { outputs: OutputReader; evaluator: Pick<EngineOptions["evaluator"], "check"> },
  schema: JsonObject,
  output: Output,
): Promise<string | null> => {
  if ("key" in output && output.bytes > MAX_OPERANDS) return tooLargeToCheck(output)
  const problem = isLarge(output)
    ? await evaluator.check(schema, outputs.text(output))
    : checkSchema(schema, await outputs.value(output))
  return problem === null ? null : `the output does not fit its schema: ${problem}`
}

const tooLargeToCheck = ({ bytes }: StoredOutput): string =>
  `the output has ${bytes} bytes, but an output with a schema has 16 MiB at most: ` +
  "write the data to a file or an object store and output its address, or remove the schema"

/**
 * Returns the key of a large output. It contains the attempt, for a container the claim that gathers it: a retry never overwrites an
 * output that a reader may have cached.
 */
export const outputKey = (runId: string, task: string, attemptId: string): string =>
  `${attemptPrefix(runId, task, attemptId)}output.json`

/** Stores an output that the engine itself produces. Throws a `TaskFailure` when it is too large. */
export const writeOutput = async (
  { objects, maxOutputBytes }: Pick<EngineOptions, "objects" | "maxOutputBytes">,
  { runId, attemptId }: Pick<TaskClaim, "runId" | "attemptId">,
  task: string,
  value: Json,
): Promise<Output> => {
  return await storeJson(objects, outputKey(runId, task, attemptId), value, (bytes) => {
    if (bytes <= maxOutputBytes) return
    throw new TaskFailure(`the output of ${bytes} bytes is larger than the ${maxOutputBytes} allowed (ORK_MAX_OUTPUT)`)
  })
}

/** Returns a small value as an inline output, and stores a larger one. `check` throws when its size is not allowed. */
export const storeJson = async (
  objects: Pick<ObjectStore, "put">,
  key: string,
  value: Json,
  check?: (bytes: number) => void,
): Promise<Output> => {
  const text = Buffer.from(JSON.stringify(value))
  if (text.length <= MAX_INLINE_OUTPUT_BYTES) return { inline: value }
  check?.(text.length)
  await objects.put(key, text)
  return { key, bytes: text.length }
}
