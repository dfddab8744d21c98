// Object stores by their addresses, each opened once. One that could not be opened is opened again with its next use.

import type { ObjectStore } from "../objects.ts"

export class OpenStores {
  readonly #open: (address: string) => Promise<ObjectStore>
  readonly #stores = new Map<string, Promise<ObjectStore>>()

  constructor(open: (address: string) => Promise<ObjectStore>) {
    this.#open = open
  }

  /** Returns the store, or its variant that gives up soon, if it has one. */
  async get(address: string): Promise<ObjectStore> {
    const opening = this.#stores.get(address) ?? this.#open(address)
    this.#stores.set(address, opening)
    try {
      const store = await opening
      return store.failFast ?? store
    } catch (error) {
      if (this.#stores.get(address) === opening) this.#stores.delete(address)
      throw error
    }
  }
}
