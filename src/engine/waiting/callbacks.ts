// The address at which a third party ends a deferred attempt. A token names the attempt and is signed with the store's secret, so
// that it is known before anything is stored, to every server alike.

import { createHmac, timingSafeEqual } from "node:crypto"
import type { Fence } from "../../core/model/change.ts"
import type { AttemptId } from "../../core/model/ids.ts"
import type { Store } from "../../store/contract/store.ts"

const TOKEN = /^([0-9a-f]{1,13})-([0-9a-f]{32})-([0-9a-f]{32})$/

/** What the stores of this process answered. */
const secrets = new WeakMap<object, Promise<string>>()
const known = new WeakMap<object, string>()

export class Callbacks {
  readonly #store: Pick<Store, "secret">
  /** Where the API answers, as far as that is known. */
  readonly #address: () => string | null

  constructor(store: Pick<Store, "secret">, address: () => string | null) {
    this.#store = store
    this.#address = address
  }

  /** What an attempt is told of it. After `ready`. */
  environment(fence: Fence): { [name: string]: string } {
    const token = this.#token(fence)
    const address = this.#address()
    return {
      ORK_CALLBACK_TOKEN: token,
      ...(address !== null && { ORK_CALLBACK_URL: `${address.replace(/\/$/, "")}/api/v1/callbacks/${token}` }),
    }
  }

  #token({ row, attemptId }: Fence): string {
    const secret = known.get(this.#store)
    if (secret === undefined) throw new Error("the engine has not started")
    const body = `${row.toString(16)}-${attemptId.replaceAll("-", "")}`
    return `${body}-${this.#sign(secret, body)}`
  }

  /** null: no token of this store. */
  async read(token: string): Promise<Fence | null> {
    const found = TOKEN.exec(token)
    if (found === null) return null
    const [, row, id, mac] = found as unknown as [string, string, string, string]
    const right = this.#sign(await this.#key(), `${row}-${id}`)
    if (!timingSafeEqual(Buffer.from(right), Buffer.from(mac))) return null
    const attemptId = id.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5") as AttemptId
    return { row: Number.parseInt(row, 16), attemptId }
  }

  /** Asked for when an engine starts: later nothing has to wait for the store, or to fail with it. */
  async ready(): Promise<void> {
    known.set(this.#store, await this.#key())
  }

  #key(): Promise<string> {
    let secret = secrets.get(this.#store)
    if (secret === undefined) {
      secret = this.#store.secret()
      secrets.set(this.#store, secret)
      secret.catch(() => secrets.delete(this.#store))
    }
    return secret
  }

  #sign(key: string, body: string): string {
    return createHmac("sha256", key).update(`callback ${body}`).digest("hex").slice(0, 32)
  }
}
