// An object store that loses a part of what it stores. It has no local paths, so that Ork uses it as a remote one.

import type { Context } from "../../../src/cli/target/context.ts"
import type { ObjectStore } from "../../../src/objects/objects.ts"

/** Wraps the object store: while `truncates` returns true, objects lose their second half, and the store reports a success. */
export const withTruncatedObjects = (context: Context, truncates: () => boolean): Context => {
  const { backends } = context
  return {
    ...context,
    backends: { ...backends, openObjects: async (config) => truncated(await backends.openObjects(config), truncates) },
  }
}

const truncated = (objects: ObjectStore, truncates: () => boolean): ObjectStore => ({
  kind: "s3",
  put: (key, data) => objects.put(key, truncates() ? data.slice(0, data.length / 2) : data),
  putStream: (key, data) => objects.putStream(key, truncates() ? firstHalf(data) : data),
  get: (key) => objects.get(key),
  getRange: (key, start, end) => objects.getRange(key, start, end),
  size: (key) => objects.size(key),
  list: (prefix, options) => objects.list(prefix, options),
  deletePrefix: (prefix) => objects.deletePrefix(prefix),
  check: () => objects.check(),
})

async function* firstHalf(data: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const chunks = await Array.fromAsync(data)
  const all = Buffer.concat(chunks)
  yield all.subarray(0, all.length / 2)
}
