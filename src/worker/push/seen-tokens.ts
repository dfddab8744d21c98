// Tokens of tasks that this worker has taken, or was told to stop, so that a request that comes twice (or was overheard and sent again) runs
// nothing twice. A proof holds for some minutes around its time, so a token is kept until no proof of that time holds any more. The number of them is
// bounded: when the oldest goes early, proofs as old as it are not taken any more.

import { MAX_AGE_SECONDS } from "../../protocol/wire/signature.ts"

const MOST = 200_000

export class SeenTokens {
  readonly #most: number
  /** By the second that the proof was made in. */
  readonly #seconds = new Map<number, Set<string>>()
  #size = 0
  #notBefore: number

  /** What was proven before this worker began may have been taken by the one before it. */
  constructor(nowMs: number, most = MOST) {
    this.#notBefore = Math.floor(nowMs / 1000)
    this.#most = most
  }

  /** A proof of this second is of no use: what came with it may have been forgotten. */
  tooOld(at: number): boolean {
    return at < this.#notBefore
  }

  has(token: string): boolean {
    for (const tokens of this.#seconds.values()) if (tokens.has(token)) return true
    return false
  }

  add(token: string, at: number, nowMs: number): void {
    this.#expire(nowMs)
    const tokens = this.#seconds.get(at) ?? new Set()
    this.#seconds.set(at, tokens)
    if (!tokens.has(token)) this.#size += 1
    tokens.add(token)
    while (this.#size > this.#most) this.#drop(Math.min(...this.#seconds.keys()))
  }

  #expire(nowMs: number): void {
    for (const at of this.#seconds.keys()) if (nowMs / 1000 - at > MAX_AGE_SECONDS) this.#drop(at)
  }

  #drop(at: number): void {
    this.#size -= this.#seconds.get(at)!.size
    this.#seconds.delete(at)
    this.#notBefore = Math.max(this.#notBefore, at + 1)
  }
}
