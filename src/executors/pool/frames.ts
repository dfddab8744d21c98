// The protocol between a pool and its worker processes: lines on two pipes, so that stdout and stderr belong to the function.
// The pool sends one JSON object per task. A worker sends a letter, a blank and JSON on one line.

import type { Json } from "../../core/model/json.ts"
import type { Assignment } from "../executor.ts"

/** A task as it is sent to a worker process. */
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
  input: Json
  maxOutputBytes: number
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
  | { kind: "output"; ms: number; retire: boolean; json: Buffer }
  | { kind: "error"; ms: number; retire: boolean; error: FunctionError }
  | { kind: "progress"; fraction?: number; details?: Json }
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
      if (this.#length > this.#maxBytes) throw new Error("the worker's message is too long")
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

/** Parses a message such as `O 0.2 0 {"rows":3}`: an output after 0.2 ms, from a worker that can run another task. */
const parseMessage = (line: Buffer): WorkerMessage => {
  const [kind, rest] = splitWord(line)
  switch (kind) {
    case "R":
      return { kind: "ready" }
    case "O":
    case "E": {
      const [ms, afterMs] = splitWord(rest)
      const [retire, json] = splitWord(afterMs)
      const base = { ms: Number(ms), retire: retire === "1" }
      return kind === "O"
        ? { kind: "output", ...base, json }
        : { kind: "error", ...base, error: JSON.parse(json.toString()) as FunctionError }
    }
    case "P":
      return { kind: "progress", ...(JSON.parse(rest.toString()) as { fraction?: number; details?: Json }) }
    case "F":
      return { kind: "files", files: JSON.parse(rest.toString()) as CodeFile[] }
    default:
      throw new Error("the worker's message has an unknown type")
  }
}

const splitWord = (bytes: Buffer): [string, Buffer] => {
  const end = bytes.indexOf(BLANK)
  return end < 0 ? [bytes.toString("latin1"), Buffer.alloc(0)] : [bytes.toString("latin1", 0, end), bytes.subarray(end + 1)]
}
