// What a pool and its worker processes say to each other: lines on two pipes of their own, so that stdout and stderr stay the
// function's. Down goes one JSON object per task. Up goes a letter, a blank and JSON; JSON on one line holds no line break.

import type { Json } from "../../core/model/json.ts"
import type { Assignment } from "../executor.ts"

/** One task, as a worker process gets it. */
export interface TaskFrame {
  /** The folder that `file` is relative to. */
  root: string
  file: string
  /** null: the runtime's default. */
  function: string | null
  /** The file registers the function under that name, rather than exporting it. */
  registered?: boolean
  /** The folder to run in. */
  cwd: string
  /** The whole environment while the task runs. */
  env: { [name: string]: string }
  context: TaskFacts
  input: Json
  maxOutputBytes: number
}

/** What a function is told about its task. */
export interface TaskFacts {
  runId: string
  taskId: string
  taskName: string
  workflowName: string
  attempt: number
  parallelIndex: number | null
  parallelCount: number | null
  logicalDate: string | null
}

export const factsOf = (assignment: Assignment): TaskFacts => ({
  runId: assignment.runId,
  taskId: assignment.taskId,
  taskName: assignment.task,
  workflowName: assignment.workflow,
  attempt: assignment.attempt,
  parallelIndex: assignment.parallelIndex,
  parallelCount: assignment.parallelCount,
  logicalDate: assignment.logicalDate,
})

/** A code file that was loaded, as it was then. */
export type CodeFile = [path: string, mtimeMs: number, size: number]

export interface FunctionError {
  message: string
  /** Trying again cannot help. */
  terminal?: boolean
  retryAfterMs?: number
}

export type WorkerMessage =
  | { kind: "ready" }
  /** How long the function took, whether the worker has to go after it (it left processes behind), and its output as JSON text. */
  | { kind: "output"; ms: number; last: boolean; json: Buffer }
  | { kind: "error"; ms: number; last: boolean; error: FunctionError }
  | { kind: "progress"; fraction?: number; details?: Json }
  | { kind: "files"; files: CodeFile[] }

const NEWLINE = 0x0a
const BLANK = 0x20

/** Splits what comes up into messages. A line longer than `maxBytes` is a fault of the worker. */
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
      if (this.#length > this.#maxBytes) throw new Error("its message is too long")
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

/** `O 0.2 0 {"rows":3}`: an output after 0.2 ms; the worker can go on. */
const parseMessage = (line: Buffer): WorkerMessage => {
  const [kind, rest] = word(line)
  switch (kind) {
    case "R":
      return { kind: "ready" }
    case "O":
    case "E": {
      const [ms, afterMs] = word(rest)
      const [last, json] = word(afterMs)
      const base = { ms: Number(ms), last: last === "1" }
      return kind === "O"
        ? { kind: "output", ...base, json }
        : { kind: "error", ...base, error: JSON.parse(json.toString()) as FunctionError }
    }
    case "P":
      return { kind: "progress", ...(JSON.parse(rest.toString()) as { fraction?: number; details?: Json }) }
    case "F":
      return { kind: "files", files: JSON.parse(rest.toString()) as CodeFile[] }
    default:
      throw new Error("its message cannot be understood")
  }
}

const word = (bytes: Buffer): [string, Buffer] => {
  const end = bytes.indexOf(BLANK)
  return end < 0 ? [bytes.toString("latin1"), Buffer.alloc(0)] : [bytes.toString("latin1", 0, end), bytes.subarray(end + 1)]
}
