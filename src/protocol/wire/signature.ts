// Signatures of messages: `X-Ork-Signature: sha256=HEX` is an HMAC over `timestamp.body`, where `body` of an incoming webhook is
// `name.body`. `X-Ork-Timestamp`, in seconds since the epoch, must be recent, so that a recorded message cannot be replayed later.

import { createHmac, timingSafeEqual } from "node:crypto"

export const SIGNATURE_HEADER = "x-ork-signature"
export const TIMESTAMP_HEADER = "x-ork-timestamp"
export const MAX_AGE_SECONDS = 300

export const signatureOf = (secret: string, timestamp: string, body: string): string =>
  `sha256=${createHmac("sha256", secret).update(`${timestamp}.${body}`).digest("hex")}`

export interface SignedMessage {
  timestamp: string | undefined
  signature: string | undefined
  body: string
}

/** Returns what is wrong with the headers of a signed message, whatever its body is, or null. */
export const headersProblem = ({ timestamp, signature }: Omit<SignedMessage, "body">, nowMs: number): string | null => {
  if (timestamp === undefined || signature === undefined) return "the headers X-Ork-Timestamp and X-Ork-Signature are missing"
  if (!/^\d{1,12}$/.test(timestamp)) return "X-Ork-Timestamp must be seconds since the epoch"
  const age = Math.abs(nowMs / 1000 - Number(timestamp))
  return age > MAX_AGE_SECONDS ? "X-Ork-Timestamp differs from the server's clock by more than five minutes" : null
}

export const signatureProblem = (secret: string, message: SignedMessage, nowMs: number): string | null => {
  const problem = headersProblem(message, nowMs)
  if (problem !== null) return problem
  if (equalText(message.signature!, signatureOf(secret, message.timestamp!, message.body))) return null
  return "X-Ork-Signature does not match: it must be sha256= and the HMAC-SHA256 of timestamp.body in hex"
}

/** Compares two texts in constant time. */
export const equalText = (a: string, b: string): boolean => {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}
