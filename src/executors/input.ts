// The input of a task as JSON text. Large outputs of upstream tasks are files (`Assignment.inputFiles`): their text becomes part of the
// input without being parsed, which would block the process that starts tasks.

import { createReadStream } from "node:fs"
import { join } from "node:path"
import type { Json } from "../core/values/json.ts"
import type { Assignment } from "./executor.ts"

type Input = Pick<Assignment, "input" | "inputFiles" | "upstreamDir">

/** Yields the input of a task as JSON. */
export async function* inputText({ input, inputFiles = [], upstreamDir }: Input): AsyncGenerator<string | Buffer> {
  const text = JSON.stringify(input)
  if (inputFiles.length === 0) {
    yield text
    return
  }
  yield text.slice(0, -1)
  let separator = text === "{}" ? "" : ","
  for (const name of inputFiles) {
    yield `${separator}${JSON.stringify(name)}:`
    yield* createReadStream(join(upstreamDir!, `${name}.json`)) as AsyncIterable<Buffer>
    separator = ","
  }
  yield "}"
}

/** Returns the input of a task as JSON; null if it has more than `maxBytes`. */
export const shortInputText = async (assignment: Input, maxBytes: number): Promise<string | null> => {
  const pieces: Buffer[] = []
  let bytes = 0
  for await (const piece of inputText(assignment)) {
    bytes += Buffer.byteLength(piece)
    if (bytes > maxBytes) return null
    pieces.push(Buffer.from(piece))
  }
  return Buffer.concat(pieces).toString()
}

/** Returns the input of a task that runs in this process. */
export const inputValue = async (assignment: Input): Promise<Json> => {
  if (assignment.inputFiles === undefined) return assignment.input
  return JSON.parse((await shortInputText(assignment, Number.POSITIVE_INFINITY))!) as Json
}
