// The clock of the store: the database's, unless a test injects one.

import type { Clock, Random } from "../../../core/model/ports.ts"
import { iso } from "../../../core/model/ports.ts"
import { type AttemptId, newAttemptId } from "../../../core/model/ids.ts"

/** SQL of the current instant. Its parameter `now` is NULL for the database's own clock; a `Tx` binds it. */
export const NOW = "COALESCE(:now::timestamptz, now())"

export class StoreClock {
  readonly #clock: Clock | undefined
  readonly #random: Random

  constructor(clock: Clock | undefined, random: Random) {
    this.#clock = clock
    this.#random = random
  }

  /** Returns the value of a statement's parameter `now`: null for the database's own clock. */
  now(): string | null {
    return this.#clock === undefined ? null : iso(this.#clock.now())
  }

  /** Returns epoch milliseconds of this process: close to the database's clock, for ids, timeouts and hints. */
  localNow(): number {
    return this.#clock?.now() ?? Date.now()
  }

  /** Returns an attempt id whose last four digits a statement replaces by the number of the claim in its batch. */
  newAttemptIdPrefix(): AttemptId {
    return newAttemptId(this.localNow(), this.#random.hex128())
  }
}
