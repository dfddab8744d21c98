// Authenticates requests to a listening worker. The headers are verified before the body is read, and all bodies in transfer share
// one memory budget.

import type { IncomingMessage } from "node:http"
import type { Clock } from "../../core/model/ports.ts"
import { bodyHash, readProof } from "../../protocol/wire/push-proof.ts"

const MAX_BODY_BYTES = 64 << 20
const MAX_TOTAL_BYTES = 128 << 20

export interface PushAuthOptions {
  /** Key that the server signs its requests with. */
  key: string
  clock: Clock
  /** Limit of one body; smaller in tests. */
  maxBody?: number
  /** Limit of all bodies in transfer; smaller in tests. */
  maxBodies?: number
}

export interface Rejection {
  status: number
  problem: string
}

export interface AuthenticatedRequest {
  /** Time of the signature, in seconds since the epoch. */
  at: number
  body: string
}

export class PushAuth {
  readonly #options: PushAuthOptions
  readonly #maxBody: number
  readonly #maxBodies: number
  #bytesInTransfer = 0

  constructor(options: PushAuthOptions) {
    this.#options = options
    this.#maxBody = options.maxBody ?? MAX_BODY_BYTES
    this.#maxBodies = options.maxBodies ?? MAX_TOTAL_BYTES
  }

  async authenticate(request: IncomingMessage): Promise<AuthenticatedRequest | Rejection> {
    const { key, clock } = this.#options
    const proof = readProof(key, request.url ?? "", request.headers, clock.now())
    if ("problem" in proof) return { status: 401, problem: proof.problem }
    const body = await this.#readBody(request)
    if ("problem" in body) return body
    if (bodyHash(body) !== proof.hash) return { status: 401, problem: "the body is not the one that was signed" }
    return { at: proof.at, body: body.toString("utf8") }
  }

  async #readBody(request: IncomingMessage): Promise<Buffer | Rejection> {
    const pieces: Buffer[] = []
    let bytes = 0
    try {
      // Keeps the connection of a rejected request open, so that it gets its response.
      for await (const piece of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
        bytes += piece.length
        this.#bytesInTransfer += piece.length
        if (bytes > this.#maxBody) return { status: 413, problem: `the body is larger than ${this.#maxBody} bytes` }
        if (this.#bytesInTransfer > this.#maxBodies) {
          return { status: 503, problem: "too many bytes are being received; try again" }
        }
        pieces.push(piece)
      }
      return Buffer.concat(pieces)
    } finally {
      this.#bytesInTransfer -= bytes
    }
  }
}
