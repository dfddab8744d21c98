// Remembers the tokens of accepted tasks and of stop requests, so that a request that arrives twice, or is replayed, runs nothing
// twice. A token is kept as long as a proof of its time is valid. The number of tokens is bounded: when the oldest are dropped early,
// proofs of their time are rejected.

import { MAX_AGE_SECONDS } from "../../protocol/wire/signature.ts"

const MAX_TOKENS = 200_000

export class SeenTokens {
  readonly #maxTokens: number
  /** Tokens by the second of their proof. */
  readonly #bySecond = new Map<number, Set<string>>()
  #size = 0
  #notBefore: number

  /** Rejects proofs from before `nowMs`: an earlier worker process may have accepted their tasks. */
  constructor(nowMs: number, maxTokens = MAX_TOKENS) {
    this.#notBefore = Math.floor(nowMs / 1000)
    this.#maxTokens = maxTokens
  }

  /** Returns true if tokens with proofs of this second may have been dropped. */
  tooOld(at: number): boolean {
    return at < this.#notBefore
  }

  has(token: string): boolean {
    for (const tokens of this.#bySecond.values()) if (tokens.has(token)) return true
    return false
  }

  add(token: string, at: number, nowMs: number): void {
    this.#dropExpired(nowMs)
    const tokens = this.#bySecond.get(at) ?? new Set()
    this.#bySecond.set(at, tokens)
    if (!tokens.has(token)) this.#size += 1
    tokens.add(token)
    while (this.#size > this.#maxTokens) this.#drop(Math.min(...this.#bySecond.keys()))
  }

  #dropExpired(nowMs: number): void {
    for (const at of this.#bySecond.keys()) if (nowMs / 1000 - at > MAX_AGE_SECONDS) this.#drop(at)
  }

  #drop(at: number): void {
    this.#size -= this.#bySecond.get(at)!.size
    this.#bySecond.delete(at)
    this.#notBefore = Math.max(this.#notBefore, at + 1)
  }
}
