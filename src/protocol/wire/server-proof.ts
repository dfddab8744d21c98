// Proves to the command line that a server has the key of this folder, before the command line sends that key. The proof is an HMAC over a
// random text of the caller and the address that the caller has connected to, so that nobody at another address can pass it on. It tells
// nothing about a key that is itself random.

import { createHmac } from "node:crypto"
import { equalText } from "./signature.ts"

export interface ProvenAddress {
  host: string
  port: number
}

const DEFAULT_PORTS: { [protocol: string]: number } = { "http:": 80, "https:": 443 }

/** Returns host and port of a URL. */
export const addressOf = (url: string): ProvenAddress => {
  const { hostname, port, protocol } = new URL(url)
  return { host: hostname.replaceAll(/[[\]]/g, ""), port: port === "" ? (DEFAULT_PORTS[protocol] ?? 0) : Number(port) }
}

export const serverProof = (key: string, nonce: string, { host, port }: ProvenAddress): string =>
  createHmac("sha256", key)
    .update(`ork server ${nonce} ${host.replace(/^::ffff:/, "")} ${port}`)
    .digest("hex")

/** Returns whether one of the proofs is for one of the addresses. */
export const isProven = (
  proofs: readonly string[],
  { key, nonce, addresses }: { key: string; nonce: string; addresses: readonly ProvenAddress[] },
): boolean => addresses.some((address) => proofs.some((proof) => equalText(proof, serverProof(key, nonce, address))))

/** Returns the key that a server and its push workers share, which gives no access to the server. */
export const pushKeyOf = (apiKey: string): string => createHmac("sha256", apiKey).update("ork push workers").digest("hex")
