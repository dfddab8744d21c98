// Reads the output of a successful task: the file $ORK_OUTPUT, else all of stdout in the format of the task, else the last line of
// stdout if that is a JSON object or array, else null. Small outputs are parsed; larger ones are streamed to the object store and
// validated, but never built in memory.

import { type Output, MAX_INLINE_OUTPUT_BYTES } from "../core/model/change.ts"
import { InexactNumber, isInexactMessage, parseExactJson } from "../core/values/exact-json.ts"
import type { OutputFormat } from "../core/model/workflow.ts"
import { isDeferral } from "../core/rules/changes/defer.ts"
import { IncompleteLog, streamBytes } from "../objects/logs/log-index.ts"
import type { LastLine } from "../objects/logs/log-writer.ts"
import { maskBytes, maskStream } from "../objects/mask.ts"
import type { ObjectStore } from "../objects/objects.ts"
import type { Assignment } from "./executor.ts"
import { JsonValidator } from "./json-validator.ts"
import { messageOf } from "../core/values/error-message.ts"
import { formatBytes } from "../core/values/quantities.ts"
import { fileBytes, type OpenedFile, openRegularFile } from "../objects/shared/regular-file.ts"

export type OutputResult = { output: Output } | { error: string }

export interface OutputTarget {
  objects: ObjectStore
  /** Prefix of the attempt's objects. */
  prefix: string
  maxBytes: number
  /** Masked in stored outputs. Inline outputs are masked by engine/attempts/attempt-runner.ts. */
  secrets: readonly string[]
  format?: OutputFormat | undefined
}

export const outputTarget = (objects: ObjectStore, assignment: Assignment): OutputTarget => ({
  objects,
  prefix: assignment.prefix,
  maxBytes: assignment.maxOutputBytes,
  secrets: assignment.secrets,
  format: assignment.node.outputFormat,
})

export const NO_OUTPUT: OutputResult = { output: { inline: null } }
const READ_BYTES = 262_144

/** Reads the output from the file, else from the log. `outputPath`: null when the task had no file. */
export const readOutput = async (outputPath: string | null, last: LastLine, target: OutputTarget): Promise<OutputResult> => {
  const fromFile = outputPath === null ? null : await outputFromFile(outputPath, target)
  return fromFile ?? outputFromLog(last, target)
}

/** Reads all of stdout from the stored log, in the format of the task. */
export const outputFromStdout = async (target: OutputTarget, format: OutputFormat): Promise<OutputResult> => {
  const stdout = () => limited(streamBytes(target.objects, target.prefix, WHOLE_STDOUT), target.maxBytes)
  const encoded = () => (format === "json" ? stdout() : encodeText(stdout(), format))
  try {
    const start = await collect(encoded(), MAX_INLINE_OUTPUT_BYTES + 1)
    if (start.length <= MAX_INLINE_OUTPUT_BYTES) return parsePrinted(start)
    const stored = await store(encoded(), target)
    return "problem" in stored ? notPrinted(stored.problem) : { output: stored }
  } catch (error) {
    if (error instanceof TooMuchOutput) return tooLarge("standard output", error.bytes, target.maxBytes)
    throw error
  }
}

const WHOLE_STDOUT = { stream: "stdout", offset: 0, length: Number.POSITIVE_INFINITY } as const

const notPrinted = (reason: string): OutputResult => unusable("what it printed (output: json)", reason)

const parsePrinted = (bytes: Buffer): OutputResult => {
  try {
    const inline = parseExactJson(bytes.toString())
    return isDeferral(inline) ? PRINTED_DEFERRAL : { output: { inline } }
  } catch {
    const check = new JsonValidator()
    return notPrinted(check.push(bytes) ?? check.end() ?? "it is not valid UTF-8")
  }
}

/** Encodes a text as a JSON string, or as a JSON list of its lines. Leaves out newlines at its end. */
async function* encodeText(data: AsyncIterable<Uint8Array>, format: Exclude<OutputFormat, "json">): AsyncGenerator<Uint8Array> {
  const decoder = new TextDecoder()
  let rest = ""
  let isEmpty = true
  for await (const chunk of data) {
    const text = rest + decoder.decode(chunk, { stream: true })
    const end = endOfText(text)
    rest = text.slice(end)
    if (end === 0) continue
    yield Buffer.from((isEmpty ? OPENING[format] : "") + encodePiece(text.slice(0, end), format))
    isEmpty = false
  }
  yield Buffer.from(isEmpty ? EMPTY[format] : CLOSING[format])
}

/** Returns the length of a text without the newlines at its end. */
const endOfText = (text: string): number => {
  let end = text.length
  while (text[end - 1] === "\n" || text[end - 1] === "\r") end--
  return end
}

const OPENING = { text: '"', lines: '["' } as const
const CLOSING = { text: '"', lines: '"]' } as const
const EMPTY = { text: '""', lines: "[]" } as const

const encodePiece = (text: string, format: "text" | "lines"): string =>
  (format === "text" ? [text] : text.split(/\r?\n/)).map((line) => JSON.stringify(line).slice(1, -1)).join('","')

class TooMuchOutput extends Error {
  readonly bytes: number
  constructor(bytes: number) {
    super()
    this.bytes = bytes
  }
}

async function* limited(data: AsyncIterable<Uint8Array>, maxBytes: number): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for await (const chunk of data) {
    bytes += chunk.length
    if (bytes > maxBytes) throw new TooMuchOutput(bytes)
    yield chunk
  }
}

export const tooLarge = (what: string, bytes: number, max: number): OutputResult => ({
  error: `its ${what} of ${formatBytes(bytes)} is larger than the limit of ${formatBytes(max)}: write it to a file or store and give its address`,
})

const unusable = (what: string, reason: string): OutputResult => ({
  error: isInexactMessage(reason) ? `${what} contains ${reason}` : `${what} is not valid JSON: ${reason}`,
})

const invalid = (reason: string): OutputResult => unusable("what it wrote to $ORK_OUTPUT", reason)

/** Parses the content of $ORK_OUTPUT. Secrets are masked in the error. */
export const parseOutput = (bytes: Buffer, secrets: readonly string[]): OutputResult => {
  try {
    return { output: { inline: parseExactJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes)) } }
  } catch {
    return rejectOutput(bytes, secrets)
  }
}

/** Parses the return value of a function. Secrets are masked in the error. */
export const parseOutputText = (text: string, secrets: readonly string[]): OutputResult => {
  try {
    return { output: { inline: parseExactJson(text) } }
  } catch {
    return rejectOutput(Buffer.from(text), secrets)
  }
}

const rejectOutput = (bytes: Buffer, secrets: readonly string[]): OutputResult => {
  const check = new JsonValidator()
  return invalid(check.push(maskBytes(bytes, secrets)) ?? check.end() ?? "it is not valid UTF-8")
}

const PRINTED_DEFERRAL: OutputResult = { error: "it printed ork_defer: write it to $ORK_OUTPUT instead" }

/** Parses the last line of stdout; a line that is not a JSON object or array is not an output. Lines cannot defer: a task may print
 * text of others, such as a param. */
export const parseLine = (bytes: Buffer, maxBytes: number): OutputResult => {
  const text = bytes.toString().trim()
  if (!looksLikeJson(text[0], text.at(-1))) return NO_OUTPUT
  try {
    const value = parseExactJson(text)
    if (isDeferral(value)) return PRINTED_DEFERRAL
    return bytes.length > maxBytes ? tooLarge("last line", bytes.length, maxBytes) : { output: { inline: value } }
  } catch (error) {
    return error instanceof InexactNumber ? unusable(LAST_LINE, error.message) : NO_OUTPUT
  }
}

const LAST_LINE = "its last line, which is its output,"

/** Returns the result of a last line that is no JSON, or whose numbers would change. */
const noLine = (problem: string): OutputResult => (isInexactMessage(problem) ? unusable(LAST_LINE, problem) : NO_OUTPUT)

const looksLikeJson = (first: string | undefined, last: string | undefined): boolean =>
  (first === "{" && last === "}") || (first === "[" && last === "]")

/** Reads the file $ORK_OUTPUT; null when it is missing or empty. */
export const outputFromFile = async (path: string, target: OutputTarget): Promise<OutputResult | null> => {
  let opened: OpenedFile | null
  try {
    opened = await openRegularFile(path)
  } catch (error) {
    return { error: `$ORK_OUTPUT cannot be read: ${messageOf(error)}` }
  }
  if (opened === null) return null
  const { file, size } = opened
  try {
    if (size === 0) return null
    if (size > target.maxBytes) return tooLarge("output", size, target.maxBytes)
    if (size <= MAX_INLINE_OUTPUT_BYTES) return parseOutput(await file.readFile(), target.secrets)
    const stored = await store(fileBytes(file), target)
    return "problem" in stored ? invalid(stored.problem) : { output: stored }
  } finally {
    await file.close()
  }
}

/** Stores a file that is known to be larger than MAX_INLINE_OUTPUT_BYTES. */
export const storeFile = async (path: string, target: OutputTarget): Promise<OutputResult> =>
  (await outputFromFile(path, target)) ?? NO_OUTPUT

/** Reads the output from the stored log: from all of stdout if the task has a format, else from its last line. */
export const outputFromLog = async (line: LastLine, target: OutputTarget): Promise<OutputResult> => {
  try {
    if (target.format === undefined) return await outputFromLine(line, target)
    await reachEnd(line, target)
    return await outputFromStdout(target, target.format)
  } catch (error) {
    if (error instanceof IncompleteLog) return { error: "its output is in its log, which cannot be read to its end" }
    throw error
  }
}

const lineBytes = ({ offset, length }: LastLine, { objects, prefix }: OutputTarget): AsyncIterable<Uint8Array> =>
  streamBytes(objects, prefix, { stream: "stdout", offset, length })

/** Rejects if the stored log does not contain the last line of stdout. */
const reachEnd = async (line: LastLine, target: OutputTarget): Promise<void> => {
  for await (const _ of lineBytes(line, target)) continue
}

const outputFromLine = async (line: LastLine, target: OutputTarget): Promise<OutputResult> => {
  let first = ""
  for await (const chunk of lineBytes(line, target)) {
    first = Buffer.from(chunk.subarray(0, 64)).toString().trimStart()
    break
  }
  if (first[0] !== "{" && first[0] !== "[") return NO_OUTPUT
  if (line.length > target.maxBytes) return tooLarge("last line", line.length, target.maxBytes)
  if (line.length <= MAX_INLINE_OUTPUT_BYTES) return parseLine(await collect(lineBytes(line, target)), target.maxBytes)
  const stored = await store(lineBytes(line, target), target)
  return "problem" in stored ? noLine(stored.problem) : { output: stored }
}

/** Reads the output like `outputFromLog`; the last line of stdout is in memory. */
export const outputFromText = async (line: Buffer, target: OutputTarget): Promise<OutputResult> => {
  if (target.format !== undefined) return outputFromStdout(target, target.format)
  if (line.length <= MAX_INLINE_OUTPUT_BYTES) return parseLine(line, target.maxBytes)
  const text = line.toString("utf8").trim()
  if (!looksLikeJson(text[0], text.at(-1))) return NO_OUTPUT
  if (line.length > target.maxBytes) return tooLarge("last line", line.length, target.maxBytes)
  const stored = await store(piecesOf(line), target)
  return "problem" in stored ? noLine(stored.problem) : { output: stored }
}

const store = async (
  data: AsyncIterable<Uint8Array>,
  { objects, prefix, secrets }: OutputTarget,
): Promise<{ key: string; bytes: number } | { problem: string }> => {
  const check = new JsonValidator()
  const key = `${prefix}output.json`
  try {
    const { bytes } = await objects.putStream(key, checked(maskStream(data, secrets), check))
    return { key, bytes }
  } catch (error) {
    if (error instanceof NotJson) return { problem: error.message }
    throw error
  }
}

async function* piecesOf(bytes: Buffer): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += READ_BYTES) yield bytes.subarray(at, at + READ_BYTES)
}

/** Stops after `enough` bytes. */
const collect = async (data: AsyncIterable<Uint8Array>, enough = Number.POSITIVE_INFINITY): Promise<Buffer> => {
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of data) {
    pieces.push(piece)
    bytes += piece.length
    if (bytes >= enough) break
  }
  return Buffer.concat(pieces)
}

class NotJson extends Error {}

async function* checked(data: AsyncIterable<Uint8Array>, check: JsonValidator): AsyncGenerator<Uint8Array> {
  for await (const chunk of data) {
    const problem = check.push(chunk)
    if (problem !== null) throw new NotJson(problem)
    yield chunk
  }
  const problem = check.end()
  if (problem !== null) throw new NotJson(problem)
}
