// Reads an object piece by piece, whatever its size.

import type { ObjectStore } from "../objects.ts"

const PIECE_BYTES = 1 << 20

/** Yields the bytes of an output. Throws the error that `gone` returns, if the object does not exist. */
export async function* readOutputObject(
  objects: Pick<ObjectStore, "getRange">,
  key: string,
  gone: (message: string) => Error = (message) => new Error(message),
): AsyncGenerator<Uint8Array> {
  for (let at = 0; ;) {
    const piece = await objects.getRange(key, at, at + PIECE_BYTES)
    if (piece === null) throw gone(`the output ${key} is gone from the object store`)
    if (piece.byteLength === 0) return
    yield piece
    at += piece.byteLength
  }
}
