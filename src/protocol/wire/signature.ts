// The signature of webhooks, in and out: `X-Ork-Signature: sha256=HEX`, an HMAC over `timestamp.body`; `X-Ork-Timestamp` is in
// seconds since the epoch and must be recent, so that a message that was overheard cannot be sent again later.

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

/** What is wrong with the signature, or null. */
export const signatureProblem = (secret: string, message: SignedMessage, nowMs: number): string | null => {
  const { timestamp, signature, body } = message
  if (timestamp === undefined || signature === undefined) return "the headers X-Ork-Timestamp and X-Ork-Signature are needed"
  if (!/^\d{1,12}$/.test(timestamp)) return "X-Ork-Timestamp must be seconds since the epoch"
  const expected = Buffer.from(signatureOf(secret, timestamp, body))
  const given = Buffer.from(signature)
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
    return "X-Ork-Signature does not fit: it is sha256= and the HMAC-SHA256 of timestamp.body in hex"
  }
  const age = Math.abs(nowMs / 1000 - Number(timestamp))
  return age > MAX_AGE_SECONDS ? "X-Ork-Timestamp is more than five minutes away from the server's clock" : null
}
