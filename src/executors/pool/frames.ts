// The protocol between a pool and its worker processes: lines on two pipes, so that stdout and stderr belong to the function.
// The pool sends one JSON object per task. A worker sends a letter, a blank and JSON on one line.

import type { Json } from "../../core/values/json.ts"
import type { Assignment, Progress } from "../executor.ts"
import { inputText } from "../input.ts"

/** A task as it is sent to a worker process, with an id that its messages repeat and with its input. */
export interface TaskFrame {
  /** The folder that `file` is relative to. */
  root: string
  file: string
  /** null for the runtime's default. */
  function: string | null
  /** True when the file registers the function under that name, instead of exporting it. */
  registered?: boolean
  /** The folder to run in. */
  cwd: string
  /** The whole environment while the task runs. */
  env: { [name: string]: string }
  context: TaskInfo
  maxOutputBytes: number
}

export type FrameInput = Pick<Assignment, "input" | "inputFiles" | "upstreamDir">

/** Yields the frame of a task as one line. */
export async function* frameLine(id: number, frame: TaskFrame, input: FrameInput): AsyncGenerator<Buffer> {
  yield Buffer.from(`${JSON.stringify({ id, ...frame }).slice(0, -1)},"input":`)
  for await (const piece of inputText(input)) yield onOneLine(Buffer.from(piece))
  yield Buffer.from("}\n")
}

/** Replaces line breaks, which JSON has only between its tokens. */
const onOneLine = (bytes: Buffer): Buffer => {
  for (const character of ["\n", "\r"]) {
    for (let at = bytes.indexOf(character); at !== -1; at = bytes.indexOf(character, at + 1)) bytes[at] = BLANK
  }
  return bytes
}

/** The information about its task that a function gets. */
export interface TaskInfo {
  runId: string
  taskId: string
  taskName: string
  workflowName: string
  attempt: number
  parallelIndex: number | null
  parallelCount: number | null
  logicalDate: string | null
}

export const taskInfoOf = (assignment: Assignment): TaskInfo => ({
  runId: assignment.runId,
  taskId: assignment.taskId,
  taskName: assignment.task,
  workflowName: assignment.workflow,
  attempt: assignment.attempt,
  parallelIndex: assignment.parallelIndex,
  parallelCount: assignment.parallelCount,
  logicalDate: assignment.logicalDate,
})

/** A code file at the time when it was loaded. */
export type CodeFile = [path: string, mtimeMs: number, size: number]

export interface FunctionError {
  message: string
  /** True when a retry cannot help. */
  terminal?: boolean
  retryAfterMs?: number
}

export type WorkerMessage =
  | { kind: "ready" }
  /**
   * `ms`: duration of the function. `retire`: the worker must not run another task, for example because the function left
   * processes.
   */
  | { kind: "output"; id: number; ms: number; retire: boolean; json: Buffer }
  | { kind: "error"; id: number; ms: number; retire: boolean; error: FunctionError }
  | { kind: "progress"; id: number; update: Progress }
  | { kind: "files"; files: CodeFile[] }

const NEWLINE = 0x0a
const BLANK = 0x20

/** Splits the bytes from a worker into messages. Throws for a line of more than `maxBytes`. */
export class MessageReader {
  readonly #maxBytes: number
  #parts: Buffer[] = []
  #length = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  read(chunk: Buffer): WorkerMessage[] {
    const messages: WorkerMessage[] = []
    for (let from = 0; from < chunk.length;) {
      const end = chunk.indexOf(NEWLINE, from)
      const piece = chunk.subarray(from, end < 0 ? undefined : end)
      this.#length += piece.length
      if (this.#length > this.#maxBytes) throw new Error("it is too long")
      if (end < 0) {
        this.#parts.push(piece)
        break
      }
      messages.push(parseMessage(this.#parts.length === 0 ? piece : Buffer.concat([...this.#parts, piece])))
      this.#parts = []
      this.#length = 0
      from = end + 1
    }
    return messages
  }
}

/**
 * Parses a message such as `O 7 0.2 0 {"rows":3}`: an output of task 7 after 0.2 ms, from a worker that can run another task.
 * Code of a task can write to the pipe, so that anything may be wrong with a message.
 */
const parseMessage = (line: Buffer): WorkerMessage => {
  const [kind, rest] = splitWord(line)
  switch (kind) {
    case "R":
      return { kind: "ready" }
    case "O":
    case "E": {
      const [id, afterId] = splitWord(rest)
      const [ms, afterMs] = splitWord(afterId)
      const [retire, json] = splitWord(afterMs)
      const base = { id: parseNumber(id), ms: parseNumber(ms), retire: retire === "1" }
      return kind === "O" ? { kind: "output", ...base, json } : { kind: "error", ...base, error: parseError(json) }
    }
    case "P": {
      const [id, json] = splitWord(rest)
      return { kind: "progress", id: parseNumber(id), update: parseProgress(json) }
    }
    case "F":
      return { kind: "files", files: parseFiles(rest) }
    default:
      throw new Error("its type is unknown")
  }
}

const parseNumber = (text: string): number => {
  const value = Number(text)
  if (text === "" || !(value >= 0 && value < Number.MAX_SAFE_INTEGER)) throw new Error("it has no valid number")
  return value
}

const parseObject = (json: Buffer): { [field: string]: unknown } => {
  const value: unknown = JSON.parse(json.toString())
  if (typeof value !== "object" || value === null) throw new Error("it is not an object")
  return value as { [field: string]: unknown }
}

const parseError = (json: Buffer): FunctionError => {
  const { message, terminal, retryAfterMs } = parseObject(json)
  if (typeof message !== "string") throw new Error("its error has no message")
  if (retryAfterMs !== undefined && !isNumberBetween(retryAfterMs, 0, Number.MAX_SAFE_INTEGER)) {
    throw new Error("the delay of its error is not valid")
  }
  return { message, ...(terminal === true && { terminal }), ...(retryAfterMs !== undefined && { retryAfterMs }) }
}

const parseProgress = (json: Buffer): Progress => {
  const { fraction, details } = parseObject(json)
  if (fraction !== undefined && !isNumberBetween(fraction, 0, 1)) throw new Error("its progress is not valid")
  return { ...(fraction !== undefined && { fraction }), ...(details !== undefined && { details: details as Json }) }
}

const parseFiles = (json: Buffer): CodeFile[] => {
  const files: unknown = JSON.parse(json.toString())
  if (!Array.isArray(files) || !files.every(isCodeFile)) throw new Error("its list of files is not valid")
  return files
}

const isCodeFile = (file: unknown): file is CodeFile =>
  Array.isArray(file) && typeof file[0] === "string" && typeof file[1] === "number" && typeof file[2] === "number"

const isNumberBetween = (value: unknown, min: number, max: number): value is number =>
  typeof value === "number" && value >= min && value <= max

const splitWord = (bytes: Buffer): [string, Buffer] => {
  const end = bytes.indexOf(BLANK)
  return end < 0 ? [bytes.toString("latin1"), Buffer.alloc(0)] : [bytes.toString("latin1", 0, end), bytes.subarray(end + 1)]
}
