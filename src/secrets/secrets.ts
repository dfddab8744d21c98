// Finds secrets in the environment (ORK_SECRET_NAME), in a folder of files (as Kubernetes mounts them), or in a secret manager by URI,
// in this order. Values are read when a task is dispatched and never stored; values of managers are cached in memory for a minute, so
// that a thousand instances cause one request.

import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { messageOf } from "../core/values/error-message.ts"
import type { Clock } from "../core/model/ports.ts"
import { SECRET_NAME, type SecretUri, type SecretUris } from "../core/settings/secret-uris.ts"

/** Reads secrets of one secret manager. Rejects with the error of the manager. */
export interface SecretManager {
  read(uri: SecretUri): Promise<string>
}

export interface SecretsOptions {
  env: { [name: string]: string | undefined }
  /** Empty if there is no folder. */
  folder: string
  uris: SecretUris
  /** Loads the client of a manager; called once per kind. */
  manager(kind: SecretUri["kind"]): Promise<SecretManager>
  clock: Pick<Clock, "monotonic">
}

const CACHE_MS = 60_000
const TIMEOUT_MS = 20_000

export class Secrets {
  readonly #options: SecretsOptions
  readonly #managers = new Map<SecretUri["kind"], Promise<SecretManager>>()
  readonly #cache = new Map<string, { value: Promise<string>; until: number }>()

  constructor(options: SecretsOptions) {
    this.#options = options
  }

  /** Returns null if there is no such secret. Rejects if it exists and cannot be read. */
  find(name: string): string | null | Promise<string | null> {
    if (!SECRET_NAME.test(name)) return null
    const { env, folder } = this.#options
    const value = env[`ORK_SECRET_${name}`]
    if (value !== undefined) return value
    return folder === "" ? this.#findInManager(name) : this.#findInFolder(folder, name)
  }

  /** Reads the file each time, because Kubernetes replaces the links of a mounted folder when a secret changes. */
  async #findInFolder(folder: string, name: string): Promise<string | null> {
    try {
      return (await readFile(join(folder, name), "utf8")).replace(/\r?\n$/, "")
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return this.#findInManager(name)
      const reason = messageOf(error)
      throw new Error(`the secret ${name} could not be read from the folder ${folder}: ${reason}`, { cause: error })
    }
  }

  #findInManager(name: string): Promise<string> | null {
    const uri = Object.hasOwn(this.#options.uris, name) ? this.#options.uris[name] : undefined
    if (uri === undefined) return null
    const now = this.#options.clock.monotonic()
    const cached = this.#cache.get(name)
    if (cached !== undefined && now < cached.until) return cached.value
    const value = this.#readFromManager(name, uri)
    this.#cache.set(name, { value, until: now + CACHE_MS })
    // Failures are not cached: the next attempt asks again.
    value.catch(() => this.#cache.delete(name))
    return value
  }

  async #readFromManager(name: string, uri: SecretUri): Promise<string> {
    try {
      let manager = this.#managers.get(uri.kind)
      if (manager === undefined) this.#managers.set(uri.kind, (manager = this.#options.manager(uri.kind)))
      return selectKey(await withTimeout(TIMEOUT_MS, (await manager).read(uri)), uri.key)
    } catch (error) {
      const reason = messageOf(error)
      throw new Error(`the secret ${name} could not be read from ${uriText(uri)}: ${reason}`, { cause: error })
    }
  }
}

const uriText = (uri: SecretUri): string => {
  const key = uri.key === null ? "" : `#${uri.key}`
  return uri.kind === "gcp" ? `gcp://${uri.name}${key}` : `aws://${uri.region}/${uri.id}${key}`
}

/** Selects a key of a JSON value. Its errors never contain the value. */
const selectKey = (value: string, key: string | null): string => {
  if (key === null) return value
  let object: unknown
  try {
    object = JSON.parse(value) as unknown
  } catch {
    throw new Error("its value is not JSON, so it has no keys")
  }
  const found: unknown =
    typeof object === "object" && object !== null ? Object.entries(object).find(([k]) => k === key)?.[1] : undefined
  if (typeof found === "string") return found
  if (typeof found === "number" || typeof found === "boolean") return String(found)
  throw new Error(found === undefined ? `its JSON has no key ${key}` : `its key ${key} is not a text`)
}

const withTimeout = async <T>(ms: number, work: Promise<T>): Promise<T> => {
  let timer: NodeJS.Timeout | undefined
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no response within ${ms / 1000} s`)), ms)
  })
  try {
    return await Promise.race([work, timeout])
  } finally {
    clearTimeout(timer)
  }
}
