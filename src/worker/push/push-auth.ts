// The door of a worker that listens: who speaks is proven by the headers before a byte of the body is read, and all bodies that are being
// read at once share one budget.

import type { IncomingMessage } from "node:http"
import type { Clock } from "../../core/model/ports.ts"
import { bodyHash, readProof } from "../../protocol/wire/push-proof.ts"

const MAX_BODY = 64 << 20
const MAX_BODIES = 128 << 20

export interface PushAuthOptions {
  apiKey: string
  clock: Clock
  /** Of one body, and of all that are being read; smaller in tests. */
  maxBody?: number
  maxBodies?: number
}

export interface Rejection {
  status: number
  problem: string
}

export interface AuthenticatedRequest {
  /** When it was signed, in seconds since the epoch. */
  at: number
  body: string
}

export class PushAuth {
  readonly #options: PushAuthOptions
  readonly #maxBody: number
  readonly #maxBodies: number
  #reading = 0

  constructor(options: PushAuthOptions) {
    this.#options = options
    this.#maxBody = options.maxBody ?? MAX_BODY
    this.#maxBodies = options.maxBodies ?? MAX_BODIES
  }

  async authenticate(request: IncomingMessage): Promise<AuthenticatedRequest | Rejection> {
    const { apiKey, clock } = this.#options
    const proof = readProof(apiKey, request.url ?? "", request.headers, clock.now())
    if ("problem" in proof) return { status: 401, problem: proof.problem }
    const body = await this.#read(request)
    if ("problem" in body) return body
    if (bodyHash(body) !== proof.hash) return { status: 401, problem: "the body is not the one that was signed" }
    return { at: proof.at, body: body.toString("utf8") }
  }

  async #read(request: IncomingMessage): Promise<Buffer | Rejection> {
    const pieces: Buffer[] = []
    let bytes = 0
    try {
      // A request that is refused on the way still gets its answer.
      for await (const piece of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
        bytes += piece.length
        this.#reading += piece.length
        if (bytes > this.#maxBody) return { status: 413, problem: `the body is larger than ${this.#maxBody} bytes` }
        if (this.#reading > this.#maxBodies) return { status: 503, problem: "too much is being sent at once; try again" }
        pieces.push(piece)
      }
      return Buffer.concat(pieces)
    } finally {
      this.#reading -= bytes
    }
  }
}
