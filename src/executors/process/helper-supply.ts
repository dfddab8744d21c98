// Chooses the spawn helper, starts it on first use, and starts another one when it has died.

import { rmSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { UnusableSetting } from "../../core/settings/unusable-setting.ts"
import { messageOf } from "../../core/values/error-message.ts"
import type { Assignment } from "../executor.ts"
import { Helper } from "./helper.ts"
import { nativeHelper } from "./native.ts"
import {
  createTaskFolders,
  describeProtections,
  openDataFolder,
  type Protections,
  type Sandbox,
  sandboxArguments,
} from "./sandbox.ts"
import { findUser, FolderOwner, type TaskUser } from "./task-user.ts"

export interface HelperChoice {
  /** `auto`: the compiled helper if it is available, else the one in JavaScript. */
  helper: "auto" | "native" | "node"
  /** false disables the pid namespace. */
  namespace?: boolean
  /** Time of silence of this process after which its tasks are killed, because another server may run them; default: none. */
  leaseMs?: number
  /** Confines tasks; default: they are not confined. */
  sandbox?: Sandbox
}

/** The description that `ork doctor` shows. */
export interface ProcessDescription {
  helper: "native" | "node"
  /** Reason why it is not the compiled one; null when it is. */
  reason: string | null
  /**
   * The way in which processes end with Ork. `namespace`: by the kernel; `reaper`: by the helper; `environ`: found by a
   * variable.
   */
  isolation: "namespace" | "reaper" | "environ"
  cgroups: "none" | "v1" | "v2"
  /** Null if tasks are not to be confined. */
  protections: Protections | null
}

/** Provides the helper of each task. Tasks with `sandbox: off` in the policy have one of their own, which does not confine them. */
export class HelperSupplies {
  readonly standard: HelperSupply
  readonly #choice: HelperChoice
  readonly #owner: string
  #unconfined: HelperSupply | null = null

  constructor(choice: HelperChoice, owner: string) {
    this.#choice = choice
    this.#owner = owner
    this.standard = new HelperSupply(choice, owner)
  }

  /** Throws where every task has to be confined. */
  of({ policy }: Pick<Assignment, "policy">): HelperSupply {
    const { sandbox, ...choice } = this.#choice
    if (sandbox === undefined || policy?.sandbox !== "off") return this.standard
    if (sandbox.required) throw new Error("`sandbox: required` allows no task without confinement (policy.sandbox: off)")
    return (this.#unconfined ??= new HelperSupply(choice, this.#owner))
  }

  async stop(): Promise<void> {
    await Promise.all([this.standard.stop(), this.#unconfined?.stop()])
  }
}

/** TypeScript in the source tree, JavaScript after a build. */
const FALLBACK = fileURLToPath(new URL(import.meta.url.endsWith(".ts") ? "./fallback.ts" : "./fallback.js", import.meta.url))

export class HelperSupply {
  readonly #choice: HelperChoice
  readonly #owner: string
  readonly #folders: FolderOwner | null
  #helper: Helper | null = null
  #starting: Promise<Helper> | null = null
  #kind: Pick<ProcessDescription, "helper" | "reason"> = { helper: "node", reason: null }
  #temporary: string | null = null

  /** `owner` is an argument of the helper, for people who list processes. */
  constructor(choice: HelperChoice, owner: string) {
    this.#choice = choice
    this.#owner = owner
    const { sandbox } = choice
    this.#folders = sandbox === undefined || sandbox.user === null ? null : new FolderOwner(sandbox.dataDir, sandbox.user)
  }

  /** User of tasks without `run_as`; "" for the user of Ork. */
  get taskUser(): string {
    return this.#choice.sandbox?.user?.name ?? ""
  }

  /** Returns the user of a task with this `run_as`; null for the user of Ork. */
  userOf(runAs: string | undefined): TaskUser | null {
    if (process.geteuid?.() !== 0) return null
    const user = runAs === undefined ? (this.#choice.sandbox?.user ?? null) : findUser(runAs)
    return user?.uid === 0 ? null : user
  }

  /** Makes the working folder of a task usable for the user of tasks. */
  prepareFolder(workingDir: string, runAs: string | undefined): void {
    if (runAs === undefined) this.#folders?.give(workingDir)
  }

  /** The running helper; null when there is none. */
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
    const { sandbox } = this.#choice
    const protections = sandbox === undefined ? null : describeProtections(hello, sandbox)
    return { ...this.#kind, isolation, cgroups: hello.cgroups, protections }
  }

  async stop(): Promise<void> {
    const helper = await this.#starting
    this.#helper = this.#starting = null
    await helper?.stop()
    if (this.#temporary !== null) rmSync(this.#temporary, { recursive: true, force: true })
    this.#temporary = null
  }

  async #start(): Promise<Helper> {
    const { sandbox } = this.#choice
    if (sandbox !== undefined) createTaskFolders(sandbox)
    const helper = await this.#startChosen()
    if (sandbox !== undefined) openDataFolder(helper.hello, sandbox)
    if (sandbox?.required === true) {
      const { missing } = describeProtections(helper.hello, sandbox)
      if (missing.length > 0) {
        await helper.stop()
        throw new UnusableSetting(`\`sandbox: required\` cannot be met here: ${missing.join("; ")}`)
      }
    }
    if (this.#choice.leaseMs !== undefined) helper.keepLease(this.#choice.leaseMs)
    return helper
  }

  async #startChosen(): Promise<Helper> {
    const choice = this.#choice.helper
    const native = choice === "node" ? { reason: "configured" } : await this.#startNative()
    if ("helper" in native) {
      this.#kind = { helper: "native", reason: null }
      return native.helper
    }
    if (choice === "native") throw new UnusableSetting(`the compiled spawn helper cannot be used: ${native.reason}`)
    this.#kind = { helper: "node", reason: native.reason }
    return Helper.start(process.execPath, [FALLBACK, this.#owner])
  }

  async #startNative(): Promise<{ helper: Helper } | { reason: string }> {
    const found = await nativeHelper()
    if ("unavailable" in found) return { reason: found.unavailable }
    this.#temporary = found.temporary
    const { namespace, sandbox } = this.#choice
    const flags = [
      ...(namespace === false ? ["--no-namespace"] : []),
      ...(sandbox === undefined ? [] : sandboxArguments(sandbox)),
    ]
    let helper: Helper
    try {
      helper = await Helper.start(found.path, [this.#owner, ...flags])
    } catch (error) {
      return { reason: messageOf(error) }
    }
    if (helper.hello.usable) return { helper }
    await helper.stop()
    return { reason: "the limit RLIMIT_RTTIME, by which it identifies tasks, is too low here" }
  }
}
