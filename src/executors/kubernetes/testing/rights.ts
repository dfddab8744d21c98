// The rights in deploy/kubernetes/rbac.yaml. The fake cluster forbids everything else.

import { readFileSync } from "node:fs"
import { parseAllDocuments } from "yaml"
import type { Kind } from "./object-storage.ts"

interface Rule {
  apiGroups: string[]
  resources: string[]
  verbs: string[]
}

const FILE = new URL("../../../../deploy/kubernetes/rbac.yaml", import.meta.url)
const VERBS: Readonly<Record<string, string>> = { POST: "create", LOG: "get", CONTINUE: "list" }

/** Returns the rights as `group/resource verb`. */
const rightsOf = (): ReadonlySet<string> => {
  const objects = parseAllDocuments(readFileSync(FILE, "utf8")).map((one) => one.toJS() as { kind: string; rules?: Rule[] })
  const rules = objects.flatMap(({ kind, rules: given = [] }) => (kind === "Role" ? given : []))
  const all = rules.flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) => resources.flatMap((resource) => verbs.map((verb) => `${group}/${resource} ${verb}`))),
  )
  return new Set(all)
}

export const RIGHTS = rightsOf()

/** Returns the right that a request needs. */
export const rightFor = (verb: string, kind: Kind): string =>
  `${kind === "jobs" ? "batch" : ""}/${verb === "LOG" ? "pods/log" : kind} ${VERBS[verb] ?? verb.toLowerCase()}`
