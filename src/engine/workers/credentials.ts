// Tokens of workers and of their attempts. The store keeps the hash of a worker's token, and a second secret that never leaves the
// server. The token of an attempt is derived from that secret, so that it is valid for this attempt only.

import { createHash, createHmac } from "node:crypto"
import { type HolderId, isUuid } from "../../core/model/ids.ts"
import type { Random } from "../../core/model/ports.ts"
import { equalText } from "../../protocol/wire/signature.ts"

const PREFIX = "orkw_"

export interface WorkerSecrets {
  token: string
  /** Stored part: the hash of the token, and the secret for tokens of attempts. */
  stored: string
}

export const newWorkerSecrets = (id: HolderId, random: Random): WorkerSecrets => {
  const token = `${PREFIX}${id}_${random.hex128()}${random.hex128()}`
  return { token, stored: `${hash(token)}.${random.hex128()}${random.hex128()}` }
}

/** Returns the worker that a token names; null for other tokens. */
export const workerOf = (token: string): HolderId | null => {
  if (!token.startsWith(PREFIX)) return null
  const id = token.slice(PREFIX.length, token.indexOf("_", PREFIX.length))
  return isUuid(id) ? (id as HolderId) : null
}

export const isTokenOf = (stored: string, token: string): boolean => equalText(stored.split(".")[0]!, hash(token))

export const attemptToken = (stored: string, attemptId: string): string =>
  createHmac("sha256", stored.split(".")[1]!).update(attemptId).digest("base64url")

export const isAttemptToken = (stored: string, attemptId: string, token: string): boolean =>
  equalText(attemptToken(stored, attemptId), token)

const hash = (text: string): string => createHash("sha256").update(text).digest("hex")
