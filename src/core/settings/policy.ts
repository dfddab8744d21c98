// The administrator's policy (`policy` in ork.yaml): what tasks may use of the machine and its clusters. Fields hold patterns with `*`;
// a pattern that starts with `!` excludes. `rules` replace fields for the workflows that they match.

import { isObject } from "../values/json.ts"
import { mapSetting } from "./map-setting.ts"

export interface PolicyFields {
  executors: readonly string[]
  images: readonly string[]
  /** Host paths that containers may mount, with everything below them. */
  mounts: readonly string[]
  /** True: containers may have every right over their machine. */
  privileged: boolean
  namespaces: readonly string[]
  serviceAccounts: readonly string[]
  /** `root` stands for every user with the id 0. Where a pattern excludes users, numbers have to be listed themselves. */
  runAs: readonly string[]
  /** Hosts of http tasks, of waits and of polls of deferred work, also along redirects. */
  hosts: readonly string[]
  /** `off`: process tasks and functions run without confinement, as the user of Ork. */
  sandbox: "auto" | "off"
}

export interface PolicyRule {
  /** Patterns of names of workflows, tags, and folders below that of `ork serve --dir`; each that is set must match. */
  workflows?: readonly string[]
  tags?: readonly string[]
  folders?: readonly string[]
  fields: Partial<PolicyFields>
}

export interface Policy {
  fields: PolicyFields
  rules: readonly PolicyRule[]
}

/**
 * Forbids what would give a task the machine or the cluster: privileged containers, host paths with the socket of Docker, kube-system,
 * root.
 */
export const DEFAULT_POLICY: Policy = {
  fields: {
    executors: ["*"],
    images: ["*"],
    mounts: [],
    privileged: false,
    namespaces: ["*", "!kube-*"],
    serviceAccounts: ["*"],
    runAs: ["*", "!root"],
    hosts: ["*"],
    sandbox: "auto",
  },
  rules: [],
}

/** Allows everything: for `ork run` without a policy, where the author is the administrator. */
export const OPEN_POLICY: Policy = {
  fields: { ...DEFAULT_POLICY.fields, mounts: ["/"], privileged: true, namespaces: ["*"], runAs: ["*"] },
  rules: [],
}

const NAMES = {
  executors: "executors",
  images: "images",
  mounts: "mounts",
  privileged: "privileged",
  namespaces: "namespaces",
  service_accounts: "serviceAccounts",
  run_as: "runAs",
  hosts: "hosts",
  sandbox: "sandbox",
} as const satisfies { [name: string]: keyof PolicyFields }

const SELECTORS = ["workflows", "tags", "folders"] as const

export const POLICY_HINT = `a map with ${Object.keys(NAMES).join(", ")} (lists of patterns; privileged is true or false, sandbox is auto or off) and rules (a list of such maps with ${SELECTORS.join(", ")}; one with \`sandbox: off\` needs folders)`

/** Parses the setting; null when it is not valid. */
export const parsePolicy = (value: unknown): Policy | null => {
  const map = mapSetting(value)
  if (map === null) return null
  const { rules: given = [], ...own } = map
  const fields = parseFields(own)
  if (fields === null || !Array.isArray(given)) return null
  const rules = given.map(parseRule)
  if (!rules.every((rule) => rule !== null)) return null
  return { fields: { ...DEFAULT_POLICY.fields, ...fields }, rules }
}

const parseRule = (value: unknown): PolicyRule | null => {
  if (!isObject(value)) return null
  const { workflows, tags, folders, ...rest } = value
  const selectors = {
    ...(workflows !== undefined && { workflows }),
    ...(tags !== undefined && { tags }),
    ...(folders !== undefined && { folders }),
  }
  const fields = parseFields(rest)
  // Authors choose names and tags.
  if (fields?.sandbox === "off" && folders === undefined) return null
  const isValid = fields !== null && Object.keys(selectors).length > 0 && Object.values(selectors).every(isPatterns)
  return isValid ? { ...(selectors as Omit<PolicyRule, "fields">), fields } : null
}

const parseFields = (map: object): Partial<PolicyFields> | null => {
  const fields: { [name: string]: unknown } = {}
  for (const [name, value] of Object.entries(map) as [string, unknown][]) {
    if (!Object.hasOwn(NAMES, name)) return null
    const parsed = parseField(name, value)
    if (parsed === null) return null
    fields[NAMES[name as keyof typeof NAMES]] = parsed
  }
  return fields
}

/** Returns null for an invalid value. */
const parseField = (name: string, value: unknown): unknown => {
  if (name === "privileged") return typeof value === "boolean" ? value : null
  // YAML 1.1 files write `off` for false.
  if (name === "sandbox") return value === false || value === "off" ? "off" : value === "auto" ? value : null
  if (!isPatterns(value) || (name === "mounts" && !value.every((path) => path.startsWith("/")))) return null
  return value
}

const isPatterns = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((pattern) => typeof pattern === "string" && pattern !== "")
