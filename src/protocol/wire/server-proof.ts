// Proves to the command line that a server has the key of this folder, before the command line sends that key. The proof is an HMAC over a
// random text of the caller; it tells nothing about a key that is itself random.

import { createHmac, timingSafeEqual } from "node:crypto"

export const serverProof = (key: string, nonce: string): string =>
  createHmac("sha256", key).update(`ork server ${nonce}`).digest("hex")

export const isServerProof = (proof: string | undefined, key: string, nonce: string): boolean => {
  const expected = Buffer.from(serverProof(key, nonce))
  const given = Buffer.from(proof ?? "")
  return given.length === expected.length && timingSafeEqual(given, expected)
}

/** Returns the key that a server and its push workers share, which gives no access to the server. */
export const pushKeyOf = (apiKey: string): string => createHmac("sha256", apiKey).update("ork push workers").digest("hex")
