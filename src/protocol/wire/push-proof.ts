// Authenticates requests of a server to a push worker. The proof is in the headers (an HMAC over time, path and hash of the body), so that
// the worker can reject a request before it reads the body, and a request for one path cannot be replayed on another.

import { createHash } from "node:crypto"
import { SIGNATURE_HEADER, signatureOf, signatureProblem, TIMESTAMP_HEADER } from "./signature.ts"

const BODY_HASH_HEADER = "x-ork-content-sha256"

export const bodyHash = (body: string | Uint8Array): string => createHash("sha256").update(body).digest("hex")

export const proofOf = (key: string, { path, body }: { path: string; body: string }, nowMs: number): Record<string, string> => {
  const timestamp = String(Math.floor(nowMs / 1000))
  const hash = bodyHash(body)
  return {
    [TIMESTAMP_HEADER]: timestamp,
    [BODY_HASH_HEADER]: hash,
    [SIGNATURE_HEADER]: signatureOf(key, timestamp, signed(path, hash)),
  }
}

export interface Proof {
  /** Seconds since the epoch. */
  at: number
  /** Hash that the body must have. */
  hash: string
}

/** Verifies the headers; returns the proof, or the problem. */
export const readProof = (
  key: string,
  path: string,
  headers: { readonly [name: string]: string | string[] | undefined },
  nowMs: number,
): Proof | { problem: string } => {
  const [timestamp, signature, hash] = [TIMESTAMP_HEADER, SIGNATURE_HEADER, BODY_HASH_HEADER].map((name) => {
    const value = headers[name]
    return typeof value === "string" ? value : undefined
  })
  if (hash === undefined)
    return { problem: "the header X-Ork-Content-Sha256 is missing: set it to the SHA-256 of the body in hex" }
  const problem = signatureProblem(key, { timestamp, signature, body: signed(path, hash) }, nowMs)
  return problem === null ? { at: Number(timestamp), hash } : { problem: `${problem}; for this request, body is PATH.HASH` }
}

const signed = (path: string, hash: string): string => `${path}.${hash}`
