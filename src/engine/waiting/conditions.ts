// The conditions that `wait` tasks wait for, except for commands, which run as attempts. A condition is built from the fields of a
// task when the engine starts to watch it; its checks change nothing.

import { realpath } from "node:fs/promises"
import { isAbsolute, resolve } from "node:path"
import { nodeOf } from "../attempts/claims.ts"
import { buildScope } from "../attempts/expression-scope.ts"
import { runFolder } from "../attempts/folders.ts"
import type { OutputReader } from "../attempts/outputs.ts"
import { insertSecrets } from "../attempts/secret.ts"
import { TaskFailure } from "../attempts/task-failure.ts"
import { BROKEN_CONDITION, type ConditionProbes, type EngineOptions, type Folders } from "../ports.ts"
import { type ExpressionScope, toText } from "../../core/expressions/expressions.ts"
import { messageOf } from "../../core/values/error-message.ts"
import type { Json, JsonObject } from "../../core/values/json.ts"
import { BLOCKED_REQUEST, iso } from "../../core/model/ports.ts"
import type { Node } from "../../core/model/workflow.ts"
import { allowedFor, policyViolation } from "../../core/rules/access/policy.ts"
import type { PolicyFields } from "../../core/settings/policy.ts"
import { maskJson, maskText } from "../../objects/mask.ts"
import type { TaskClaim } from "../../store/contract/store.ts"

/** What a check found. `seen`: why the condition does not hold yet. */
export type Finding = { met: true; output: Json } | { met: false; seen: string }

export interface Condition {
  /** Checks with the same key share a limit of concurrent checks. */
  readonly key: string
  /** What the task waits for, without secrets. */
  readonly text: string
  /** Throws a `TaskFailure` when waiting cannot help. Any other error counts as what the check saw. */
  check(): Promise<Finding>
}

const CHECK_TIMEOUT_MS = 30_000

type Fields = { [field: string]: Json }

const notHere = (): Promise<never> => Promise.reject(new Error(NOT_HERE))

/** What an engine sees that checks no conditions. */
export const NOT_HERE = "no server has checked it yet"

const UNCHECKED: ConditionProbes = { paths: notHere, respond: notHere, firstRow: notHere, stop: () => Promise.resolve() }

export class ConditionBuilder {
  readonly #options: EngineOptions
  readonly #conditions: ConditionProbes
  readonly #outputs: OutputReader
  readonly #folders: Folders

  constructor(options: EngineOptions, outputs: OutputReader, folders: Folders) {
    this.#options = options
    this.#conditions = options.conditions ?? UNCHECKED
    this.#outputs = outputs
    this.#folders = folders
  }

  /** Builds the condition of a claimed task. Throws a `TaskFailure` for invalid fields. */
  async build(claim: TaskClaim, node: Node): Promise<Condition> {
    const { store, evaluator, policy } = this.#options
    const { workflow } = nodeOf(store, claim)
    const scope = await buildScope(this.#outputs, claim, workflow, node)
    const fields: Fields = {}
    for (const [field, template] of Object.entries(node.fields)) {
      if (field !== "sql") fields[field] = await evaluator.render(template, scope)
    }
    const allowed = policy === undefined ? undefined : allowedFor(policy, workflow)
    const forbidden = allowed === undefined ? null : policyViolation(allowed, { ...node, fields, workingDir: null })
    if (forbidden !== null) throw new TaskFailure(forbidden)
    if (node.fields["path"] !== undefined) return await this.#path(claim, node, fields, scope)
    if (node.fields["url"] !== undefined) return this.#url(node, fields, scope, allowed)
    if (node.fields["sql"] !== undefined) return await this.#sql(node.fields["sql"], fields, scope)
    return this.#workflow(claim, fields)
  }

  // -- files and objects -----------------------------------------------------------------------------------------------------------

  async #path(claim: TaskClaim, node: Node, fields: Fields, scope: ExpressionScope): Promise<Condition> {
    const given = toText(fields["path"] ?? null).replace(/^file:\/\/(?=\/)/, "")
    if (given === "") throw new TaskFailure("the path is empty")
    if (given.includes("\0")) throw new TaskFailure("the path contains a null character")
    if (isAddress(given)) return new PathCondition(given, given.split("/", 3).join("/"), () => this.#conditions.paths(given))
    const path = isAbsolute(given) ? resolve(given) : resolve(await this.#workingDir(claim, node, scope), given)
    return new PathCondition(path, "files", () => this.#findFiles(claim, path))
  }

  async #workingDir(claim: TaskClaim, node: Node, scope: ExpressionScope): Promise<string> {
    const wanted = node.workingDir === undefined ? null : toText(await this.#options.evaluator.render(node.workingDir, scope))
    return (await this.#folders.workingDir(claim, wanted)).workingDir
  }

  /** Finds the files that a task may see: not the data folder of Ork, except for the folder of their run. */
  async #findFiles({ runId }: TaskClaim, path: string): Promise<string[]> {
    const found = await this.#conditions.paths(path, runFolder(this.#options.dataDir, runId))
    if (found.length > 0) await this.#checkPlace(runId, found)
    return found
  }

  /** Links may lead into the data folder. */
  async #checkPlace(runId: string, found: readonly string[]): Promise<void> {
    const dataDir = await realpath(this.#options.dataDir).catch(() => this.#options.dataDir)
    const own = runFolder(dataDir, runId)
    for (const path of found) {
      const real = await realpath(path)
      if (isInside(real, dataDir) && !isInside(real, own)) {
        throw new TaskFailure(`${path} is inside the data folder of Ork, which tasks do not see`)
      }
    }
  }

  // -- URLs ------------------------------------------------------------------------------------------------------------------------

  #url(node: Node, fields: Fields, scope: ExpressionScope, allowed: PolicyFields | undefined): Condition {
    const text = shownAddress(fields["url"])
    const check = async (): Promise<Finding> => {
      const request = { ...fields }
      const secrets = await insertSecrets(this.#options, request, node)
      const policyOf = allowed === undefined ? {} : { policy: allowed }
      try {
        const sent = await this.#conditions.respond({ fields: request, secrets, ...policyOf, timeoutMs: CHECK_TIMEOUT_MS })
        const response = maskJson(sent.response, secrets) as JsonObject
        return await this.#interpret(node, scope, response, sent.expected)
      } catch (error) {
        throw maskedError(error, secrets)
      }
    }
    return { key: text, text, check }
  }

  /** Evaluates `until` over an expected response. */
  async #interpret({ wait }: Node, scope: ExpressionScope, response: JsonObject, expected: boolean): Promise<Finding> {
    const status = response["status"] as number
    if (!expected) return { met: false, seen: `the status ${status}` }
    if (wait?.until === undefined) return { met: true, output: response }
    const value = await this.#options.evaluator.evaluate(wait.until, { ...scope, response })
    if (value === true) return { met: true, output: response }
    return { met: false, seen: `the status ${status}, and until is ${JSON.stringify(value)}` }
  }

  // -- queries -----------------------------------------------------------------------------------------------------------------------

  /** Expressions in the query become its parameters, so that no value becomes SQL. */
  async #sql(template: NonNullable<Node["fields"]["sql"]>, fields: Fields, scope: ExpressionScope): Promise<Condition> {
    const connection = fields["connection"] === undefined ? null : toText(fields["connection"])
    const parts = "text" in template ? template.text : [toText("lit" in template ? template.lit : null)]
    const values: (string | null)[] = []
    let text = ""
    for (const part of parts) {
      if (typeof part === "string") text += part
      else {
        const value = await this.#options.evaluator.evaluate(part.expr, scope)
        values.push(value === null ? null : toText(value))
        text += `$${values.length}`
      }
    }
    const what = connection === null ? "a query" : `a query on ${connection}`
    const check = async (): Promise<Finding> =>
      rowFinding(await this.#conditions.firstRow({ connection, text, values, timeoutMs: CHECK_TIMEOUT_MS }))
    return { key: what, text: `${what} to return true`, check }
  }

  // -- workflows -----------------------------------------------------------------------------------------------------------------------

  #workflow({ runId }: TaskClaim, fields: Fields): Condition {
    const { store } = this.#options
    const workflow = toText(fields["workflow"] ?? null)
    const given = fields["logical_date"]
    const logicalDate = given === undefined ? undefined : instantOf(given)
    const where = logicalDate === undefined ? "" : ` with the logical date ${logicalDate}`
    const check = async (): Promise<Finding> => {
      // The run of the task itself is never what it waits for.
      const runs = await store.listRuns({ workflow, limit: 2, ...(logicalDate !== undefined && { logicalDate }) })
      const run = runs.find(({ id }) => id !== runId)
      if (run === undefined) return { met: false, seen: `there is no run of ${workflow}${where}` }
      const { id, status, logicalDate: logical_date, finishedAt: finished_at } = run
      if (status === "success") return { met: true, output: { run_id: id, logical_date, finished_at } }
      return { met: false, seen: `run ${id} is ${status}` }
    }
    return { key: "workflows", text: `the success of the latest run of ${workflow}${where}`, check }
  }
}

/** A class, because servers hold thousands of them. */
class PathCondition implements Condition {
  readonly key: string
  readonly #path: string
  readonly #find: () => Promise<string[]>

  constructor(path: string, key: string, find: () => Promise<string[]>) {
    this.#path = path
    this.key = key
    this.#find = find
  }

  get text(): string {
    return isPattern(this.#path) ? `a match of ${this.#path}` : this.#path
  }

  async check(): Promise<Finding> {
    const found = await this.#find()
    if (found.length === 0) return { met: false, seen: isPattern(this.#path) ? "no match" : "it does not exist" }
    return { met: true, output: { path: found[0]!, paths: found } }
  }
}

/** Returns whether a check failed in a way that a later check cannot fix. */
export const isBroken = (error: unknown): boolean =>
  error instanceof Error && (error.name === BROKEN_CONDITION || error.name === BLOCKED_REQUEST)

const maskedError = (error: unknown, secrets: readonly string[]): unknown => {
  if (secrets.length === 0 || !(error instanceof Error) || error instanceof TaskFailure) return error
  const masked = new Error(maskText(messageOf(error), secrets))
  masked.name = error.name
  return masked
}

/** Decides by the first column of the first row. */
const rowFinding = (row: JsonObject | null): Finding => {
  const [column] = Object.keys(row ?? {})
  if (row === null || column === undefined) return { met: false, seen: "the query returned no row" }
  const value = row[column]!
  if (value === true) return { met: true, output: row }
  if (value === false || value === null) return { met: false, seen: `${column} is ${value === null ? "null" : "false"}` }
  const shown = JSON.stringify(value).slice(0, 100)
  throw new TaskFailure(`${column}, the first column of the query, is ${shown}; it must be true or false, such as count(*) > 0`)
}

const instantOf = (value: Json): string => {
  const at = typeof value === "string" ? Date.parse(value) : Number.NaN
  if (Number.isNaN(at))
    throw new TaskFailure(`logical_date is ${JSON.stringify(value)}, but must be an instant such as 2026-01-31T10:00:00Z`)
  return iso(at)
}

const isAddress = (path: string): boolean => /^(?:s3|gs):\/\//.test(path)

const isPattern = (path: string): boolean => path.includes("*")

const isInside = (path: string, folder: string): boolean => `${path}/`.startsWith(`${folder}/`)

/** Leaves out the query, which may contain credentials. */
const shownAddress = (url: Json | undefined): string => {
  if (typeof url !== "string" || !URL.canParse(url)) return "its URL"
  const { origin, pathname, search } = new URL(url)
  return `${origin}${pathname}${search === "" ? "" : "?…"}`
}
