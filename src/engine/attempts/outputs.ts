// Reads and writes outputs of tasks. Small outputs are inline; larger ones are objects of their attempt.

import type { EngineOptions } from "../ports.ts"
import { TaskFailure } from "./task-failure.ts"
import type { Output } from "../../core/model/change.ts"
import type { Json } from "../../core/model/json.ts"
import { attemptPrefix, type ObjectStore } from "../../objects/objects.ts"
import type { TaskClaim } from "../../store/contract/store.ts"

/** Larger outputs are stored as objects. */
export const INLINE_LIMIT = 64 * 1024

/** All instances of a fan-out read the same outputs. */
const MAX_CACHED = 8

export class OutputReader {
  readonly #objects: Pick<ObjectStore, "get">
  readonly #cache = new Map<string, Promise<Json>>()

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
    if (this.#cache.size > MAX_CACHED) this.#cache.delete(this.#cache.keys().next().value!)
    return reading
  }

  /** Reads a large output. */
  async read(key: string): Promise<Json> {
    const bytes = await this.#objects.get(key)
    if (bytes === null) throw new TaskFailure(`the output ${key} is gone from the object store`)
    return parseJson(bytes)
  }
}

const parseJson = (bytes: Uint8Array): Json => JSON.parse(Buffer.from(bytes).toString("utf8")) as Json

/** Reads a large output. Throws a `TaskFailure` if the object store has lost it, or a part of it. */
export const readLargeOutput = async (
  objects: Pick<ObjectStore, "get">,
  { key, bytes }: Extract<Output, { key: string }>,
): Promise<Uint8Array> => {
  const found = await objects.get(key)
  if (found === null) throw new TaskFailure(`the output ${key} is gone from the object store`)
  if (found.byteLength === bytes) return found
  throw new TaskFailure(
    `the object store has lost a part of the output ${key}: it has ${found.byteLength} of ${bytes} bytes; retry the task that wrote it`,
  )
}

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
  const text = Buffer.from(JSON.stringify(value))
  if (text.length <= INLINE_LIMIT) return { inline: value }
  if (text.length > maxOutputBytes) {
    throw new TaskFailure(`the output of ${text.length} bytes is larger than the ${maxOutputBytes} allowed (ORK_MAX_OUTPUT)`)
  }
  const key = outputKey(runId, task, attemptId)
  await objects.put(key, text)
  return { key, bytes: text.length }
}
