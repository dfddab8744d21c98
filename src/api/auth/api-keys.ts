// Creates, rotates and removes API keys. The store holds their hashes; a key itself is shown once. Every change empties the cache of the
// authenticator, also when the call fails: the commit may have succeeded.

import { uuidv7 } from "../../core/model/ids.ts"
import type { Clock, Random } from "../../core/model/ports.ts"
import type { KeyRow, KeyStore, NewKey } from "../../store/contract/keys.ts"
import { hashKey } from "./auth.ts"

const KEY_PREFIX = "ork_"

export interface ApiKeysOptions {
  store: Pick<KeyStore, "createKey" | "rotateKey" | "removeKey">
  clock: Clock
  random: Random
  /** Empties the cache of keys. */
  changed(): void
}

export class ApiKeys {
  readonly #options: ApiKeysOptions

  constructor(options: ApiKeysOptions) {
    this.#options = options
  }

  async create(input: Omit<NewKey, "id" | "hash">): Promise<{ row: KeyRow; key: string }> {
    const { store, clock, random, changed } = this.#options
    const key = this.#secret()
    const id = uuidv7(clock.now(), random.hex128())
    const row = await store.createKey({ ...input, id, scopes: [...new Set(input.scopes)], hash: hashKey(key) }).finally(changed)
    return { row, key }
  }

  /** Replaces the secret of a key. The old one works for `overlapMs`. Returns null when there is no such key. */
  async rotate(id: string, overlapMs: number): Promise<{ row: KeyRow; key: string } | null> {
    const { store, changed } = this.#options
    const key = this.#secret()
    const row = await store.rotateKey({ id, hash: hashKey(key), overlapMs }).finally(changed)
    return row === null ? null : { row, key }
  }

  /** Returns false when there is no such key. */
  remove(id: string): Promise<boolean> {
    return this.#options.store.removeKey(id).finally(this.#options.changed)
  }

  #secret(): string {
    const { random } = this.#options
    return KEY_PREFIX + random.hex128() + random.hex128()
  }
}
