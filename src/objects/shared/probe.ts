// Writes a probe, reads it back and removes it: whether an object store can be used, for `check` of every backend.

import { randomBytes } from "node:crypto"
import type { ObjectStore } from "../objects.ts"

/** Requests are tried again for minutes; whoever starts Ork should know earlier. */
const PATIENCE_MS = 20_000

/** Throws what the store throws. */
export const probe = async (
  store: Pick<ObjectStore, "put" | "get" | "deletePrefix">,
  patienceMs = PATIENCE_MS,
): Promise<void> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it does not answer within ${patienceMs / 1000} s`)), patienceMs)
  })
  try {
    await Promise.race([writeAndRead(store), late])
  } finally {
    clearTimeout(timer)
  }
}

const writeAndRead = async (store: Pick<ObjectStore, "put" | "get" | "deletePrefix">): Promise<void> => {
  const prefix = `check-${randomBytes(8).toString("hex")}/`
  await store.put(`${prefix}probe`, "ok")
  const back = await store.get(`${prefix}probe`)
  await store.deletePrefix(prefix)
  if (back === null || Buffer.from(back).toString() !== "ok") throw new Error("the probe did not come back as it was written")
}
