// Chooses the spawn helper, starts it when it is first needed, and again when it has died.

import { rmSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { Helper } from "./helper.ts"
import { nativeHelper } from "./native.ts"

export interface HelperChoice {
  /** `auto`: the compiled helper where it can be had, else the one in JavaScript. */
  helper: "auto" | "native" | "node"
  /** false: works as where namespaces are not to be had. */
  namespace?: boolean
}

/** For `ork doctor`. */
export interface ProcessDescription {
  helper: "native" | "node"
  /** Why it is not the compiled one. */
  reason: string | null
  /** `namespace`: the kernel ends everything with Ork; `reaper`: the helper does; `environ`: found by a variable. */
  isolation: "namespace" | "reaper" | "environ"
  cgroups: "none" | "v1" | "v2"
}

/** TypeScript in the source tree, JavaScript after a build. */
const FALLBACK = fileURLToPath(new URL(import.meta.url.endsWith(".ts") ? "./fallback.ts" : "./fallback.js", import.meta.url))

export class HelperSupply {
  readonly #choice: HelperChoice
  readonly #owner: string
  #helper: Helper | null = null
  #starting: Promise<Helper> | null = null
  #kind: Pick<ProcessDescription, "helper" | "reason"> = { helper: "node", reason: null }
  #temporary: string | null = null

  /** `owner` is shown among the helper's arguments. */
  constructor(choice: HelperChoice, owner: string) {
    this.#choice = choice
    this.#owner = owner
  }

  /** A live helper, without waiting when there is one. */
  get ready(): Helper | null {
    return this.#helper?.dead === false ? this.#helper : null
  }

  async get(): Promise<Helper> {
    if (this.ready !== null) return this.ready
    if (this.#helper !== null) this.#starting = this.#helper = null
    this.#starting ??= this.#start()
    try {
      return (this.#helper = await this.#starting)
    } catch (error) {
      this.#starting = null
      throw error
    }
  }

  async describe(): Promise<ProcessDescription> {
    const { hello } = await this.get()
    const isolation = this.#kind.helper === "node" ? "environ" : hello.namespace ? "namespace" : "reaper"
    return { ...this.#kind, isolation, cgroups: hello.cgroups }
  }

  async stop(): Promise<void> {
    const helper = await this.#starting
    this.#helper = this.#starting = null
    await helper?.stop()
    if (this.#temporary !== null) rmSync(this.#temporary, { recursive: true, force: true })
    this.#temporary = null
  }

  async #start(): Promise<Helper> {
    const wanted = this.#choice.helper
    const native = wanted === "node" ? { reason: "asked for" } : await this.#startNative()
    if ("helper" in native) {
      this.#kind = { helper: "native", reason: null }
      return native.helper
    }
    if (wanted === "native") throw new Error(`the compiled spawn helper cannot be used: ${native.reason}`)
    this.#kind = { helper: "node", reason: native.reason }
    return Helper.start(process.execPath, [FALLBACK, this.#owner])
  }

  async #startNative(): Promise<{ helper: Helper } | { reason: string }> {
    const found = await nativeHelper()
    if ("unavailable" in found) return { reason: found.unavailable }
    this.#temporary = found.temporary
    const flags = this.#choice.namespace === false ? ["--no-namespace"] : []
    const helper = await Helper.start(found.path, [this.#owner, ...flags])
    if (helper.hello.usable) return { helper }
    await helper.stop()
    return { reason: "the limit RLIMIT_RTTIME, by which it tells tasks apart, is set too low here" }
  }
}
