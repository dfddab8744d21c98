// Where instants come from: the database's clock, unless one is injected (tests). Statements take `now` as a parameter that is
// null for the database's own: COALESCE($n::timestamptz, now()).

import type { Clock, Random } from "../../../core/model/ports.ts"
import { iso } from "../../../core/model/ports.ts"
import { type AttemptId, newAttemptId } from "../../../core/model/ids.ts"

export class StoreClock {
  readonly #clock: Clock | undefined
  readonly #random: Random

  constructor(clock: Clock | undefined, random: Random) {
    this.#clock = clock
    this.#random = random
  }

  /** For a statement's `now`. */
  now(): string | null {
    return this.#clock === undefined ? null : iso(this.#clock.now())
  }

  /** Roughly now, for ids, whose order is a courtesy. */
  localNow(): number {
    return this.#clock?.now() ?? Date.now()
  }

  /** An id whose last four digits a statement replaces by the number of the claim in its batch. */
  newAttemptIds(): AttemptId {
    return newAttemptId(this.localNow(), this.#random.hex128())
  }
}
