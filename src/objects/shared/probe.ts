// Checks whether an object store can be used: writes an object, reads it back and removes it. Used by `check` of every backend.

import { randomBytes } from "node:crypto"
import type { ObjectStore } from "../objects.ts"

/** Shorter than the retries of a request, which take minutes: a user who starts Ork should see the error sooner. */
const TIMEOUT_MS = 20_000

type ProbedStore = Pick<ObjectStore, "put" | "get" | "deletePrefix">

/** Throws the error of the store, or a timeout. */
export const probe = async (store: ProbedStore, timeoutMs = TIMEOUT_MS): Promise<void> => {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it does not respond within ${timeoutMs / 1000} s`)), timeoutMs)
  })
  try {
    await Promise.race([writeAndRead(store), timeout])
  } finally {
    clearTimeout(timer)
  }
}

const writeAndRead = async (store: ProbedStore): Promise<void> => {
  const prefix = `check-${randomBytes(8).toString("hex")}/`
  await store.put(`${prefix}probe`, "ok")
  const stored = await store.get(`${prefix}probe`)
  await store.deletePrefix(prefix)
  if (stored === null || Buffer.from(stored).toString() !== "ok") throw new Error("a test object was not read back as written")
}
