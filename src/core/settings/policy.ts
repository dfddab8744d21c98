// The administrator's policy (`policy` in ork.yaml): what tasks may use of the machine and its clusters. Fields hold patterns with `*`;
// a pattern that starts with `!` excludes. `rules` replace fields for the workflows that they match.

import { isObject } from "../model/json.ts"
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
  runAs: readonly string[]
  /** Hosts of http tasks. */
  hosts: readonly string[]
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

/** Forbids what would give a task the machine or the cluster: privileged containers, host paths with the socket of Docker, kube-system. */
export const DEFAULT_POLICY: Policy = {
  fields: {
    executors: ["*"],
    images: ["*"],
    mounts: [],
    privileged: false,
    namespaces: ["*", "!kube-*"],
    serviceAccounts: ["*"],
    runAs: ["*"],
    hosts: ["*"],
  },
  rules: [],
}

/** Allows everything: for `ork run` without a policy, where the author is the administrator. */
export const OPEN_POLICY: Policy = {
  fields: { ...DEFAULT_POLICY.fields, mounts: ["/"], privileged: true, namespaces: ["*"] },
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
} as const satisfies { [name: string]: keyof PolicyFields }

const SELECTORS = ["workflows", "tags", "folders"] as const

export const POLICY_HINT = `a map with ${Object.keys(NAMES).join(", ")} (lists of patterns; privileged is true or false) and rules (a list of such maps with ${SELECTORS.join(", ")})`

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
  const isValid = fields !== null && Object.keys(selectors).length > 0 && Object.values(selectors).every(isPatterns)
  return isValid ? { ...(selectors as Omit<PolicyRule, "fields">), fields } : null
}

const parseFields = (map: object): Partial<PolicyFields> | null => {
  const fields: { [name: string]: unknown } = {}
  for (const [name, value] of Object.entries(map) as [string, unknown][]) {
    if (!Object.hasOwn(NAMES, name)) return null
    if (name === "privileged" ? typeof value !== "boolean" : !isPatterns(value)) return null
    if (name === "mounts" && !(value as string[]).every((path) => path.startsWith("/"))) return null
    fields[NAMES[name as keyof typeof NAMES]] = value
  }
  return fields
}

const isPatterns = (value: unknown): value is string[] =>
  Array.isArray(value) && value.every((pattern) => typeof pattern === "string" && pattern !== "")
