// Where secrets come from: the environment (ORK_SECRET_NAME), a folder of files (as Kubernetes mounts them), a manager by URI; the
// first that has the name wins. Values are asked for when a task is dispatched and are never stored: what a manager answered is
// remembered in memory for a minute, so that a thousand instances ask once.

import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { messageOf } from "../core/model/error-message.ts"
import type { Clock } from "../core/model/ports.ts"
import { SECRET_NAME, type SecretUri, type SecretUris } from "../core/settings/secret-uris.ts"

/** Reads one secret of a manager. Rejects with what the manager says. */
export interface SecretManager {
  read(uri: SecretUri): Promise<string>
}

export interface SecretsOptions {
  env: { [name: string]: string | undefined }
  /** "": none. */
  folder: string
  uris: SecretUris
  /** Loads the client of a manager; asked once each. */
  manager(kind: SecretUri["kind"]): Promise<SecretManager>
  clock: Pick<Clock, "now">
}

const KEPT_MS = 60_000
const ANSWER_MS = 20_000

export class Secrets {
  readonly #options: SecretsOptions
  readonly #managers = new Map<SecretUri["kind"], Promise<SecretManager>>()
  readonly #kept = new Map<string, { value: Promise<string>; until: number }>()

  constructor(options: SecretsOptions) {
    this.#options = options
  }

  /** null: there is none of that name. Rejects when the place that has it does not give it. */
  find(name: string): string | null | Promise<string | null> {
    if (!SECRET_NAME.test(name)) return null
    const { env, folder } = this.#options
    const value = env[`ORK_SECRET_${name}`]
    if (value !== undefined) return value
    return folder === "" ? this.#ofManager(name) : this.#ofFile(folder, name)
  }

  /** Read each time: Kubernetes swaps the links of a mounted folder when a secret changes. */
  async #ofFile(folder: string, name: string): Promise<string | null> {
    try {
      return (await readFile(join(folder, name), "utf8")).replace(/\r?\n$/, "")
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return this.#ofManager(name)
      const reason = messageOf(error)
      throw new Error(`the secret ${name} could not be read from the folder ${folder}: ${reason}`, { cause: error })
    }
  }

  #ofManager(name: string): Promise<string> | null {
    const uri = Object.hasOwn(this.#options.uris, name) ? this.#options.uris[name] : undefined
    if (uri === undefined) return null
    const now = this.#options.clock.now()
    const kept = this.#kept.get(name)
    if (kept !== undefined && now < kept.until) return kept.value
    const value = this.#ask(name, uri)
    this.#kept.set(name, { value, until: now + KEPT_MS })
    // A failure is not kept: the next attempt asks again.
    value.catch(() => this.#kept.delete(name))
    return value
  }

  async #ask(name: string, uri: SecretUri): Promise<string> {
    try {
      let manager = this.#managers.get(uri.kind)
      if (manager === undefined) this.#managers.set(uri.kind, (manager = this.#options.manager(uri.kind)))
      return selectKey(await withTimeout(ANSWER_MS, (await manager).read(uri)), uri.key)
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

/** Never says what the value is. */
const selectKey = (value: string, key: string | null): string => {
  if (key === null) return value
  let object: unknown
  try {
    object = JSON.parse(value) as unknown
  } catch {
    throw new Error("its value is no JSON, so it has no keys")
  }
  const found: unknown =
    typeof object === "object" && object !== null ? Object.entries(object).find(([k]) => k === key)?.[1] : undefined
  if (typeof found === "string") return found
  if (typeof found === "number" || typeof found === "boolean") return String(found)
  throw new Error(found === undefined ? `its JSON has no key ${key}` : `its key ${key} is no text`)
}

const withTimeout = async <T>(ms: number, work: Promise<T>): Promise<T> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${ms / 1000} s`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
