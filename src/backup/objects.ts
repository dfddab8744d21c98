// Copies the objects of one store to another, with their checksums. Other processes may write and remove objects meanwhile.

import { createHash, type Hash } from "node:crypto"
import { readFile } from "node:fs/promises"
import { KEY_PREFIXES, type ObjectStore } from "../objects/objects.ts"
import { objectChunks } from "../objects/shared/copy-object.ts"
import { damaged, objectListFile } from "./manifest.ts"

export interface ObjectEntry {
  key: string
  bytes: number
  sha256: string
}

const CONCURRENCY = 8
const PAGE = 1000

const listObjects = async (objects: ObjectStore): Promise<string[]> => {
  const keys: string[] = []
  for (const prefix of KEY_PREFIXES) {
    for (let page = await objects.list(prefix, { limit: PAGE }); page.length > 0;) {
      keys.push(...page)
      page = page.length < PAGE ? [] : await objects.list(prefix, { limit: PAGE, after: page.at(-1)! })
    }
  }
  return keys
}

/** Copies what is not in `copied` in its present size, and adds it there. Leaves out what is removed meanwhile. */
export const copyObjects = async (from: ObjectStore, to: ObjectStore, copied: Map<string, ObjectEntry>): Promise<void> => {
  const keys = await listObjects(from)
  // The index of a growing log comes first: it may be shorter than the log, but not longer.
  const [first, rest] = [keys.filter(isIndex), keys.filter((key) => !isIndex(key))]
  for (const part of [first, rest]) {
    await inParallel(part, async (key) => {
      const entry = await copyObject(from, to, key, copied.get(key))
      if (entry !== null) copied.set(key, entry)
    })
  }
}

const isIndex = (key: string): boolean => key.endsWith(".idx")

/** Returns whether an object is written again and again, perhaps in the same size: the status of `ork exec` is. */
const isRewritten = (key: string): boolean => key.endsWith("/status.json")

const copyObject = async (
  from: ObjectStore,
  to: ObjectStore,
  key: string,
  before: ObjectEntry | undefined,
): Promise<ObjectEntry | null> => {
  const bytes = await from.size(key)
  if (bytes === null) return null
  if (before?.bytes === bytes && !isRewritten(key)) return before
  const hash = createHash("sha256")
  try {
    await to.putStream(key, hashed(objectChunks(from, key, bytes), hash))
  } catch (error) {
    if ((await from.size(key)) === null) return null
    throw error
  }
  return { key, bytes, sha256: hash.digest("hex") }
}

async function* hashed(chunks: AsyncIterable<Uint8Array>, hash: Hash): AsyncGenerator<Uint8Array> {
  for await (const chunk of chunks) {
    hash.update(chunk)
    yield chunk
  }
}

export const listText = (entries: Iterable<ObjectEntry>): string =>
  [...entries].map((entry) => `${JSON.stringify(entry)}\n`).join("")

/** Reads the list of a backup's objects. Throws a BackupError if it does not match its checksum. */
export const readList = async (folder: string, sha256: string): Promise<ObjectEntry[]> => {
  const text = await readFile(objectListFile(folder), "utf8").catch(() => "")
  if (createHash("sha256").update(text).digest("hex") !== sha256)
    throw damaged(folder, "objects.ndjson does not match its checksum")
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as ObjectEntry)
}

/** Throws a BackupError if an object is missing or changed. */
export const verifyObjects = (folder: string, objects: ObjectStore, entries: readonly ObjectEntry[]): Promise<void> =>
  inParallel(entries, async ({ key, bytes, sha256 }) => {
    if ((await objects.size(key)) !== bytes) throw damaged(folder, `objects/${key} is missing or has another size`)
    const hash = createHash("sha256")
    for await (const chunk of objectChunks(objects, key, bytes)) hash.update(chunk)
    if (hash.digest("hex") !== sha256) throw damaged(folder, `objects/${key} does not match its checksum`)
  })

const inParallel = async <T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> => {
  const left = items.values()
  const worker = async (): Promise<void> => {
    for (const item of left) await work(item)
  }
  await Promise.all(Array.from({ length: CONCURRENCY }, worker))
}
