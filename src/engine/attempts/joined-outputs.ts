// Stores the outputs of several tasks as one output: a list, or an object by name. Copies their texts piece by piece, without parsing
// them, so that time and memory do not depend on their size.

import { outputBytes } from "./outputs.ts"
import type { EngineOptions } from "../ports.ts"
import { type Output, MAX_INLINE_OUTPUT_BYTES } from "../../core/model/change.ts"
import type { Json } from "../../core/values/json.ts"

/** An output; null is stored as null. */
export interface Member {
  name: string
  output: Output | null
}

type Options = Pick<EngineOptions, "objects" | "maxOutputBytes">

const BRACKETS = { list: ["[", "]"], object: ["{", "}"] } as const

/** Stores the members, in memory if they are small. Returns null when they are too large. */
export const joinOutputs = async (
  { objects, maxOutputBytes }: Options,
  key: string,
  kind: "list" | "object",
  members: AsyncIterable<Member>,
): Promise<Output | null> => {
  const pieces = piecesOf(objects, kind, members)
  const head: Uint8Array[] = []
  let length = 0
  for await (const piece of pieces) {
    head.push(piece)
    length += piece.byteLength
    if (length <= MAX_INLINE_OUTPUT_BYTES) continue
    const { bytes } = await objects.putStream(key, limited(head, pieces, maxOutputBytes))
    if (bytes <= maxOutputBytes) return { key, bytes }
    await objects.deletePrefix(key.slice(0, key.lastIndexOf("/") + 1))
    return null
  }
  return { inline: JSON.parse(Buffer.concat(head).toString()) as Json }
}

/** Yields the list or object as parts of a JSON text. */
async function* piecesOf(
  objects: Options["objects"],
  kind: "list" | "object",
  members: AsyncIterable<Member>,
): AsyncGenerator<Uint8Array> {
  const [open, close] = BRACKETS[kind]
  let text: string = open
  let separator = ""
  for await (const { name, output } of members) {
    text += separator + (kind === "list" ? "" : `${JSON.stringify(name)}:`)
    separator = ","
    const isStored = output !== null && "key" in output
    if (!isStored) text += JSON.stringify(output?.inline ?? null)
    if (isStored || text.length > MAX_INLINE_OUTPUT_BYTES) {
      yield Buffer.from(text)
      text = ""
    }
    if (isStored) yield* outputBytes(objects, output)
  }
  yield Buffer.from(text + close)
}

/** Stops soon after `max` bytes: the caller then sees more bytes than allowed. */
async function* limited(head: readonly Uint8Array[], rest: AsyncIterable<Uint8Array>, max: number): AsyncGenerator<Uint8Array> {
  let bytes = 0
  for (const piece of head) {
    bytes += piece.byteLength
    yield piece
  }
  for await (const piece of rest) {
    bytes += piece.byteLength
    yield piece
    if (bytes > max) return
  }
}
