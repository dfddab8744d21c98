// What a worker shows and what its attempts show. A worker's token is kept as a hash with its holder; a second secret beside it, which
// never leaves the server, makes the token of each attempt, so that what reports for one attempt cannot report for another.

import { createHash, createHmac, timingSafeEqual } from "node:crypto"
import { type HolderId, isUuid } from "../../core/model/ids.ts"
import type { Random } from "../../core/model/ports.ts"

const PREFIX = "orkw_"

export interface WorkerSecrets {
  token: string
  /** As it is stored: the hash of the token, and the secret of its attempts. */
  stored: string
}

export const newWorkerSecrets = (id: HolderId, random: Random): WorkerSecrets => {
  const token = `${PREFIX}${id}_${random.hex128()}${random.hex128()}`
  return { token, stored: `${hash(token)}.${random.hex128()}${random.hex128()}` }
}

/** The worker that a token names; null: it is no worker's token. */
export const workerOf = (token: string): HolderId | null => {
  if (!token.startsWith(PREFIX)) return null
  const id = token.slice(PREFIX.length, token.indexOf("_", PREFIX.length))
  return isUuid(id) ? (id as HolderId) : null
}

export const isTokenOf = (stored: string, token: string): boolean => same(stored.split(".")[0]!, hash(token))

export const attemptToken = (stored: string, attemptId: string): string =>
  createHmac("sha256", stored.split(".")[1]!).update(attemptId).digest("base64url")

export const isAttemptToken = (stored: string, attemptId: string, token: string): boolean =>
  same(attemptToken(stored, attemptId), token)

const hash = (text: string): string => createHash("sha256").update(text).digest("hex")

export const same = (a: string, b: string): boolean => {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}
