// Callback addresses, at which another service finishes a deferred attempt. A token names the attempt and is signed with the store's
// secret: every server accepts it, and nothing has to be stored before the task uses it.

import { createHmac, timingSafeEqual } from "node:crypto"
import type { EngineOptions } from "../ports.ts"
import type { Fence } from "../../core/model/change.ts"
import type { AttemptId } from "../../core/model/ids.ts"

const TOKEN = /^([0-9a-f]{1,13})-([0-9a-f]{32})-([0-9a-f]{32})$/

/** Secrets of the stores of this process: while they are read, and once they are known. */
const readings = new WeakMap<object, Promise<string>>()
const secrets = new WeakMap<object, string>()

export class Callbacks {
  readonly #options: Pick<EngineOptions, "store" | "address">

  constructor(options: Pick<EngineOptions, "store" | "address">) {
    this.#options = options
  }

  /** Reads the secret. Called when an engine starts, so that `environment` neither waits for the store nor fails with it. */
  async load(): Promise<void> {
    const { store } = this.#options
    secrets.set(store, await this.#readSecret())
  }

  /** Returns the variables that name an attempt's callback. Without a known API address: the token alone. */
  environment(fence: Fence): { [name: string]: string } {
    const token = this.#token(fence)
    const address = this.#options.address?.() ?? null
    return {
      ORK_CALLBACK_TOKEN: token,
      ...(address !== null && { ORK_CALLBACK_URL: `${address.replace(/\/$/, "")}/api/v1/callbacks/${token}` }),
    }
  }

  /** Returns the fence that a token names; null when the token is not of this store. */
  async read(token: string): Promise<Fence | null> {
    const found = TOKEN.exec(token)
    if (found === null) return null
    const [, row, id, mac] = found as unknown as [string, string, string, string]
    const expected = sign(await this.#readSecret(), `${row}-${id}`)
    if (!timingSafeEqual(Buffer.from(expected), Buffer.from(mac))) return null
    const attemptId = id.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5") as AttemptId
    return { row: Number.parseInt(row, 16), attemptId }
  }

  #token({ row, attemptId }: Fence): string {
    const secret = secrets.get(this.#options.store)
    if (secret === undefined) throw new Error("the engine has not started")
    const body = `${row.toString(16)}-${attemptId.replaceAll("-", "")}`
    return `${body}-${sign(secret, body)}`
  }

  #readSecret(): Promise<string> {
    const { store } = this.#options
    let reading = readings.get(store)
    if (reading === undefined) {
      reading = store.getSecret()
      readings.set(store, reading)
      reading.catch(() => readings.delete(store))
    }
    return reading
  }
}

const sign = (secret: string, body: string): string =>
  createHmac("sha256", secret).update(`callback ${body}`).digest("hex").slice(0, 32)
