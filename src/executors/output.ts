// A successful task's output: the file $ORK_OUTPUT, else its last line on stdout when that is a JSON object or array, else null. Small
// ones are parsed; larger ones go to the object store as they are, checked but never built in memory.

import { constants } from "node:fs"
import { type FileHandle, open } from "node:fs/promises"
import { messageOf } from "../core/model/error-message.ts"
import type { Output } from "../core/model/change.ts"
import type { Json } from "../core/model/json.ts"
import { streamBytes } from "../objects/logs/log-chunks.ts"
import type { LastLine } from "../objects/logs/log-writer.ts"
import { maskBytes, maskedBytes } from "../objects/mask.ts"
import type { ObjectStore } from "../objects/objects.ts"
import { JsonCheck } from "./json-check.ts"
import { bytesInWords } from "./messages.ts"

export type Answer = { output: Output } | { error: string }

export interface OutputPlace {
  objects: ObjectStore
  /** That of the attempt. */
  prefix: string
  maxBytes: number
  /** Masked in what is stored. What is inline is masked by whoever runs the attempt (engine/attempts/runner.ts). */
  secrets: readonly string[]
}

export const NOTHING: Answer = { output: { inline: null } }
/** Larger outputs are objects. */
export const INLINE_MAX = 65_536
const READ_BYTES = 262_144

/** The output of a task that left a file (null: it could not) and a log that was written by `openLog`. */
export const readAnswer = async (outputPath: string | null, last: LastLine, place: OutputPlace): Promise<Answer> => {
  const fromFile = outputPath === null ? null : await fileAnswer(outputPath, place)
  return fromFile ?? lineAnswer(last, place)
}

export const tooLarge = (what: string, bytes: number, max: number): Answer => ({
  error: `its ${what} of ${bytesInWords(bytes)} is larger than the limit of ${bytesInWords(max)}: write it to a file or store and give its address`,
})

const invalid = (reason: string): Answer => ({ error: `what it wrote to $ORK_OUTPUT is not valid JSON: ${reason}` })

/** What is wrong is told without the secrets that may stand there. */
export const parseOutput = (bytes: Buffer, secrets: readonly string[]): Answer => {
  try {
    return { output: { inline: JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) as Json } }
  } catch {
    const check = new JsonCheck()
    return invalid(check.push(maskBytes(bytes, secrets)) ?? check.end() ?? "it cannot be read")
  }
}

export const parseLine = (bytes: Buffer, maxBytes: number): Answer => {
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

/** A task can put anything in place of its output file, so a link out of its folder or a pipe is not followed. */
const openOutput = async (path: string): Promise<{ file: FileHandle; size: number } | null> => {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants
  const file = await open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return null
    throw error
  })
  if (file === null) return null
  const stat = await file.stat()
  if (stat.isFile()) return { file, size: stat.size }
  await file.close()
  throw Object.assign(new Error("it is no plain file"), { code: "EINVAL" })
}

/** What the file $ORK_OUTPUT holds; null: nothing was written there. */
const fileAnswer = async (path: string, place: OutputPlace): Promise<Answer | null> => {
  let opened: Awaited<ReturnType<typeof openOutput>>
  try {
    opened = await openOutput(path)
  } catch (error) {
    return { error: `$ORK_OUTPUT cannot be read: ${messageOf(error)}` }
  }
  if (opened === null) return null
  const { file, size } = opened
  try {
    if (size === 0) return null
    if (size > place.maxBytes) return tooLarge("output", size, place.maxBytes)
    if (size <= INLINE_MAX) return parseOutput(await file.readFile(), place.secrets)
    const stored = await store(bytesOf(file), place)
    return "problem" in stored ? invalid(stored.problem) : { output: stored }
  } finally {
    await file.close()
  }
}

async function* bytesOf(file: FileHandle): AsyncGenerator<Uint8Array> {
  for (;;) {
    const { bytesRead, buffer } = await file.read({ buffer: Buffer.allocUnsafe(READ_BYTES) })
    if (bytesRead === 0) return
    yield buffer.subarray(0, bytesRead)
  }
}

/** The same for a file of which it is known that it holds more than is kept inline. */
export const storeFile = async (path: string, place: OutputPlace): Promise<Answer> => (await fileAnswer(path, place)) ?? NOTHING

/** What the last line of stdout says, which lies in the stored log. */
export const lineAnswer = async (line: LastLine, place: OutputPlace): Promise<Answer> => {
  const bytes = () => streamBytes(place.objects, place.prefix, { stream: "stdout", offset: line.offset, length: line.length })
  let first = ""
  for await (const chunk of bytes()) {
    first = Buffer.from(chunk.subarray(0, 64)).toString().trimStart()
    break
  }
  if (first[0] !== "{" && first[0] !== "[") return NOTHING
  if (line.length > place.maxBytes) return tooLarge("last line", line.length, place.maxBytes)
  if (line.length <= INLINE_MAX) return parseLine(await collect(bytes()), place.maxBytes)
  const stored = await store(bytes(), place)
  return "problem" in stored ? NOTHING : { output: stored }
}

/** The same of a last line that is at hand. */
export const textAnswer = async (line: Buffer, place: OutputPlace): Promise<Answer> => {
  if (line.length <= INLINE_MAX) return parseLine(line, place.maxBytes)
  const text = line.toString("utf8").trim()
  if (!looksLikeJson(text[0], text.at(-1))) return NOTHING
  if (line.length > place.maxBytes) return tooLarge("last line", line.length, place.maxBytes)
  const stored = await store(piecesOf(line), place)
  return "problem" in stored ? NOTHING : { output: stored }
}

const store = async (
  data: AsyncIterable<Uint8Array>,
  { objects, prefix, secrets }: OutputPlace,
): Promise<{ key: string; bytes: number } | { problem: string }> => {
  const check = new JsonCheck()
  const key = `${prefix}output.json`
  try {
    const { bytes } = await objects.putStream(key, checked(maskedBytes(data, secrets), check))
    return { key, bytes }
  } catch (error) {
    if (error instanceof NotJson) return { problem: error.message }
    throw error
  }
}

async function* piecesOf(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += READ_BYTES) yield bytes.subarray(at, at + READ_BYTES)
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
