// A successful process's output: the file $ORK_OUTPUT, else its last line on stdout when that is a JSON object or array, else null. Small
// ones come inside the helper's report; larger ones go to the object store as they are, checked but never built in memory.

import { createReadStream } from "node:fs"
import { rm } from "node:fs/promises"
import type { Output } from "../../core/change.ts"
import type { Json } from "../../core/json.ts"
import { streamBytes } from "../../objects/log-chunks.ts"
import type { ObjectStore } from "../../objects/objects.ts"
import { JsonCheck } from "./json-check.ts"
import { INLINE_MAX } from "./protocol.ts"
import type { Exited } from "./protocol.ts"
import { bytesInWords } from "./words.ts"

export type Answer = { output: Output } | { error: string }

export interface OutputPlace {
  objects: ObjectStore
  prefix: string
  outputPath: string
  maxBytes: number
}

const NOTHING: Answer = { output: { inline: null } }

/** Synchronous for the common cases, so that a small task costs no file operation here. */
export const readOutput = (exited: Exited, place: OutputPlace): Answer | Promise<Answer> => {
  const { answer, outputSize, line } = exited
  if (outputSize > place.maxBytes) return tooLarge("output", outputSize, place.maxBytes)
  if (answer?.from === "output") return inlineOutput(answer.bytes)
  if (outputSize > 0) return storeFile(place)
  if (answer?.from === "line") return inlineLine(answer.bytes, place.maxBytes)
  if (line.length > INLINE_MAX || line.split) return longLine(exited, place)
  return NOTHING
}

const tooLarge = (what: string, bytes: number, max: number): Answer => ({
  error: `its ${what} of ${bytesInWords(bytes)} is larger than the limit of ${bytesInWords(max)}: write it to a file or store and give its address`,
})

const invalid = (reason: string): Answer => ({ error: `what it wrote to $ORK_OUTPUT is not valid JSON: ${reason}` })

const inlineOutput = (bytes: Buffer): Answer => {
  try {
    return { output: { inline: JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) as Json } }
  } catch (error) {
    return invalid(error instanceof SyntaxError ? error.message : "it is not valid UTF-8")
  }
}

const inlineLine = (bytes: Buffer, maxBytes: number): Answer => {
  const text = bytes.toString().trim()
  if (!looksLikeJson(text[0], text.at(-1))) return NOTHING
  try {
    const value = JSON.parse(text) as Json
    return bytes.length > maxBytes ? tooLarge("last line", bytes.length, maxBytes) : { output: { inline: value } }
  } catch {
    return NOTHING
  }
}

const looksLikeJson = (first: string | undefined, last: string | undefined): boolean =>
  (first === "{" && last === "}") || (first === "[" && last === "]")

const storeFile = async (place: OutputPlace): Promise<Answer> => {
  const stored = await store(createReadStream(place.outputPath), place)
  return "problem" in stored ? invalid(stored.problem) : { output: stored }
}

/** The last line when it does not come with the report: longer than that allows, or in pieces. */
const longLine = async (exited: Exited, place: OutputPlace): Promise<Answer> => {
  const { line } = exited
  const bytes = () => streamBytes(place.objects, place.prefix, { stream: "stdout", offset: line.offset, length: line.length })
  let first = ""
  for await (const chunk of bytes()) {
    first = Buffer.from(chunk.subarray(0, 64)).toString().trimStart()
    break
  }
  if (first[0] !== "{" && first[0] !== "[") return NOTHING
  if (line.length > place.maxBytes) return tooLarge("last line", line.length, place.maxBytes)
  if (line.length <= INLINE_MAX) return inlineLine(await collect(bytes()), place.maxBytes)
  const stored = await store(bytes(), place)
  return "problem" in stored ? NOTHING : { output: stored }
}

const store = async (
  data: AsyncIterable<Uint8Array>,
  { objects, prefix }: OutputPlace,
): Promise<{ key: string; bytes: number } | { problem: string }> => {
  const check = new JsonCheck()
  const key = `${prefix}output.json`
  try {
    const { bytes } = await objects.putStream(key, checked(data, check))
    return { key, bytes }
  } catch (error) {
    if (error instanceof NotJson) return { problem: error.message }
    throw error
  }
}

const collect = async (data: AsyncIterable<Uint8Array>): Promise<Buffer> => {
  const pieces: Uint8Array[] = []
  for await (const piece of data) pieces.push(piece)
  return Buffer.concat(pieces)
}

class NotJson extends Error {}

async function* checked(data: AsyncIterable<Uint8Array>, check: JsonCheck): AsyncGenerator<Uint8Array> {
  for await (const chunk of data) {
    const problem = check.push(chunk)
    if (problem !== null) throw new NotJson(problem)
    yield chunk
  }
  const problem = check.end()
  if (problem !== null) throw new NotJson(problem)
}

/** Files that the helper left for this side to read. */
export const removeOutput = (path: string): Promise<void> => rm(path, { force: true })
