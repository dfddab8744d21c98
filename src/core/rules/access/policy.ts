// Decides whether the administrator's policy allows a task: at the deployment for values that are known then, and at the dispatch for all.

import { isObject, type Json } from "../../values/json.ts"
import type { Problem } from "../../model/problems.ts"
import type { CompiledWorkflow, Node, Template } from "../../model/workflow.ts"
import { parseObjectAddress } from "../../settings/object-address.ts"
import { parsePathPattern } from "../../settings/path-pattern.ts"
import type { Policy, PolicyFields } from "../../settings/policy.ts"
import { matches } from "../../values/name-patterns.ts"

/** Capabilities that give a container rights over its machine. */
const MACHINE_RIGHTS = new Set([
  "ALL",
  "BPF",
  "DAC_READ_SEARCH",
  "NET_ADMIN",
  "PERFMON",
  "SYS_ADMIN",
  "SYS_BOOT",
  "SYS_MODULE",
  "SYS_PTRACE",
  "SYS_RAWIO",
])

type Workflow = Pick<CompiledWorkflow, "name" | "tags" | "folder">

/** Resources that a task uses. Fields with expressions are missing before it is dispatched. */
interface TaskUse extends Pick<Node, "executor" | "image" | "runAs"> {
  fields: { readonly [field: string]: Json }
  /** The task's `working_dir`; null without one. */
  workingDir: Json
}

/** Returns the problems of a workflow with the policy, as far as they are known before its tasks run. */
export const policyProblems = (policy: Policy, workflow: CompiledWorkflow): Problem[] => {
  const allowed = allowedFor(policy, workflow)
  return [...triggerProblems(allowed, workflow), ...workflow.nodes.flatMap((node) => nodeProblems(allowed, node))]
}

const nodeProblems = (allowed: PolicyFields, node: Node): Problem[] => {
  const fields = Object.fromEntries(Object.entries(node.fields).map(([name, template]) => [name, knownPart(template)]))
  const workingDir = node.workingDir === undefined ? null : knownPart(node.workingDir)
  return violations(allowed, { ...node, fields, workingDir }).map((message) => ({ path: `tasks.${node.name}`, message }))
}

const triggerProblems = (allowed: PolicyFields, { triggers = [] }: CompiledWorkflow): Problem[] =>
  triggers.flatMap((trigger, i) => {
    const endpoint = "path" in trigger ? endpointOf(trigger.path) : null
    const message = endpoint === null ? null : hostViolation(allowed, endpoint)
    return message === null ? [] : [{ path: `triggers.${i}.path`, message }]
  })

/** Returns the first reason why a task that is about to run is forbidden; null if it is allowed. */
export const policyViolation = (allowed: PolicyFields, task: TaskUse): string | null => violations(allowed, task)[0] ?? null

/** Returns why a container may not mount a path of its machine, in which no link is left; null if it may. `own`: the folder of the run. */
export const mountViolation = (allowed: PolicyFields, path: string, own: string): string | null =>
  isBelow([...allowed.mounts, own], path) ? null : violation(`the mount of ${path}`, "mounts")

/** Returns why a request may not be sent to a host; null if it may. */
export const hostViolation = (allowed: PolicyFields, url: string | URL): string | null => {
  const host = hostOf(String(url))
  const patterns = allowed.hosts.map((pattern) => plainHost(pattern.toLowerCase()))
  return host === null || matches(patterns, host) ? null : violation(`the host ${host}`, "hosts")
}

/** Returns true if tasks may run as a user with the id 0, whatever its name. */
export const allowsRoot = (allowed: PolicyFields): boolean => matches(allowed.runAs, "root")

export const ROOT_VIOLATION = "the policy of this server does not allow run_as with a user of id 0 (policy.run_as in ork.yaml)"

/** Applies the rules that match the workflow, in order. */
export const allowedFor = ({ fields, rules }: Policy, { name, tags, folder }: Workflow): PolicyFields => {
  const matching = rules.filter(
    (rule) =>
      (rule.workflows === undefined || matches(rule.workflows, name)) &&
      (rule.tags === undefined || tags.some((tag) => matches(rule.tags!, tag))) &&
      (rule.folders === undefined || (folder !== undefined && matches(rule.folders, folder))),
  )
  return Object.assign({}, fields, ...matching.map((rule) => rule.fields)) as PolicyFields
}

const violation = (what: string, setting: string): string =>
  `the policy of this server does not allow ${what} (policy.${setting} in ork.yaml)`

const violations = (allowed: PolicyFields, { executor, image, runAs, fields, workingDir }: TaskUse): string[] => {
  const found: string[] = []
  const reject = (what: string, setting: string): void => void found.push(violation(what, setting))
  const check = (patterns: readonly string[], value: unknown, what: string, setting: string): void => {
    if (typeof value === "string" && !matches(patterns, value)) reject(`${what} ${value}`, setting)
  }
  check(allowed.executors, executor, "the executor", "executors")
  check(allowed.images, image, "the image", "images")
  if (runAs !== undefined && !allowsUser(allowed, runAs)) reject(`run_as ${runAs}`, "run_as")
  const docker = objectOf(fields["docker"])
  const kubernetes = objectOf(fields["kubernetes"])
  if (executor === "docker") {
    for (const path of dockerPaths(docker, workingDir))
      if (!isBelow(allowed.mounts, path)) reject(`the mount of ${path}`, "mounts")
    if (!allowed.privileged) for (const right of dockerRights(docker)) reject(right, "privileged")
  }
  if (executor === "kubernetes") {
    check(allowed.namespaces, kubernetes["namespace"], "the namespace", "namespaces")
    check(allowed.serviceAccounts, kubernetes["service_account"], "the service account", "service_accounts")
    for (const path of podPaths(kubernetes)) if (!isBelow(allowed.mounts, path)) reject(`the mount of ${path}`, "mounts")
    if (!allowed.privileged) for (const right of podRights(objectOf(kubernetes["security"]))) reject(right, "privileged")
  }
  if (executor === "slurm" && !allowsRoot(allowed)) {
    for (const option of userOptions(objectOf(fields["slurm"]))) reject(`the option ${option} of sbatch`, "run_as")
  }
  const url = executor === "http" ? fields["url"] : executor === "wait" ? (fields["url"] ?? endpointOf(fields["path"])) : null
  const forbidden = typeof url === "string" ? hostViolation(allowed, url) : null
  return forbidden === null ? found : [...found, forbidden]
}

/** Returns the endpoint that requests for the objects of a path are sent to; null if the path names none. */
const endpointOf = (path: Json | undefined): string | null => {
  const store = typeof path === "string" ? (parsePathPattern(path)?.store ?? null) : null
  const address = store === null ? null : parseObjectAddress(store)
  return address?.kind === "s3" ? address.endpoint : null
}

/**
 * Returns whether the policy allows a user. Anything but a name is a number in some notation: its user is not known here, and could be
 * one that a pattern excludes.
 */
const allowsUser = ({ runAs: patterns }: PolicyFields, user: string): boolean =>
  matches(patterns, user) &&
  (/^[A-Za-z_]/.test(user) || patterns.includes(user) || !patterns.some((pattern) => pattern.startsWith("!")))

type Fields = { readonly [name: string]: Json }

const objectOf = (value: Json | undefined): Fields => (isObject(value) ? value : {})
const listOf = (value: Json | undefined): Json[] => (Array.isArray(value) ? value : [])
const textsOf = (value: Json | undefined): string[] => listOf(value).filter((item) => typeof item === "string")

/**
 * Returns the host paths that a container mounts, as far as the text of the task shows them; the executor checks what is really mounted.
 * Volumes have no slash; a relative path that leaves the folder of the run is a host path too.
 */
const dockerPaths = (docker: Fields, workingDir: Json): string[] => {
  const sources = textsOf(docker["mounts"]).map((mount) => mount.split(":")[0]!)
  if (typeof workingDir === "string" && docker["work"] !== false) sources.push(workingDir)
  return sources.map(normalize).filter((path) => path.startsWith("/") || path.startsWith(".."))
}

/** Resolves `.` and `..` in a path; a relative path that leaves its folder begins with `..`. */
const normalize = (path: string): string => {
  const parts: string[] = []
  for (const part of path.split("/")) {
    if (part === "" || part === ".") continue
    if (part !== "..") parts.push(part)
    else if (parts.length > 0 && parts.at(-1) !== "..") parts.pop()
    else if (!path.startsWith("/")) parts.push(part)
  }
  return `${path.startsWith("/") ? "/" : ""}${parts.join("/")}`
}

const dockerRights = (docker: Fields): string[] => [
  ...(docker["privileged"] === true ? ["privileged containers"] : []),
  ...machineRights(docker["cap_add"]),
  ...(typeof docker["network"] === "string" && /^(host|container:.*|ns:.*)$/.test(docker["network"])
    ? [`the network ${docker["network"]}`]
    : []),
]

const podPaths = (kubernetes: Fields): string[] =>
  listOf(kubernetes["volumes"]).flatMap((volume) => {
    const { path } = objectOf(objectOf(volume)["hostPath"])
    return typeof path === "string" ? [normalize(path)] : []
  })

const podRights = (security: Fields): string[] => [
  ...(security["privileged"] === true ? ["privileged containers"] : []),
  ...machineRights(security["capabilities"]),
]

/** Returns the options that choose the user or group of a Slurm job, also in the short forms that sbatch accepts. */
const userOptions = (slurm: Fields): string[] =>
  textsOf(slurm["options"]).filter((option) => /^--(?:ui|gi)d?(?:=|$)/.test(option))

const machineRights = (capabilities: Json | undefined): string[] =>
  textsOf(capabilities)
    .map((name) => name.toUpperCase().replace(/^CAP_/, ""))
    .filter((name) => MACHINE_RIGHTS.has(name))
    .map((name) => `the capability ${name}`)

/** Returns the host of a URL; null if it is none. A dot at the end names the same host. */
const hostOf = (url: string): string | null => (URL.canParse(url) ? plainHost(new URL(url).hostname) : null)

const plainHost = (host: string): string => host.replace(/\.$/, "")

const isBelow = (allowed: readonly string[], path: string): boolean =>
  allowed.some((folder) => folder === "/" || `${path}/`.startsWith(`${normalize(folder)}/`))

/** Returns the literals of a template; null in the place of expressions. */
const knownPart = (template: Template): Json => {
  if ("lit" in template) return template.lit
  if ("list" in template) return template.list.map(knownPart)
  if ("map" in template)
    return Object.fromEntries(Object.entries(template.map).map(([name, value]) => [name, knownPart(value)]))
  return null
}
