// Copies an object, inside the store if it can.

import { readObjectRange } from "./read-range.ts"
import type { ObjectStore } from "../objects.ts"

const CHUNK_BYTES = 4 << 20

/** Returns the size of the object; null if there is no such object. */
export const copyObject = async (objects: ObjectStore, from: string, to: string): Promise<number | null> => {
  const bytes = await objects.size(from)
  if (bytes === null) return null
  if (objects.join === undefined) await objects.putStream(to, objectChunks(objects, from, bytes))
  else await objects.join(to, [{ key: from, start: 0, end: bytes }])
  return bytes
}

/** Yields the first `bytes` of an object. */
export async function* objectChunks(objects: ObjectStore, key: string, bytes: number): AsyncGenerator<Uint8Array> {
  for (let start = 0; start < bytes; start += CHUNK_BYTES) {
    yield await readObjectRange(objects, { key, start, end: Math.min(bytes, start + CHUNK_BYTES) })
  }
}
