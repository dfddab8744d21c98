// How a server proves a request to a worker that listens. The headers alone carry the proof (an HMAC over time, path and the hash of the
// body), so that the worker reads nothing from a stranger, and what was said to one path cannot be said to another.

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
  /** In seconds since the epoch. */
  at: number
  /** Of the body that must follow. */
  hash: string
}

/** What the headers prove, or what is wrong with them. */
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
  if (hash === undefined) return { problem: "the header X-Ork-Content-Sha256 is needed: the SHA-256 of the body in hex" }
  const problem = signatureProblem(key, { timestamp, signature, body: signed(path, hash) }, nowMs)
  return problem === null ? { at: Number(timestamp), hash } : { problem: `${problem}; here body is PATH.HASH` }
}

const signed = (path: string, hash: string): string => `${path}.${hash}`
