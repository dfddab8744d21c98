// What an API server refuses: by the published types, and by the rules for names, labels and Jobs that stand in no type.

import { typeProblems } from "./types.ts"
import type { Kind } from "./store.ts"

const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const LABEL_KEY = /^([a-z0-9]([a-z0-9.-]*[a-z0-9])?\/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/
const LABEL_VALUE = /^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$/
const MAX_ANNOTATIONS = 256 * 1024
const MAX_SECRET = 1024 * 1024
const TYPES: Partial<Record<Kind, { type: string; apiVersion: string; kind: string }>> = {
  jobs: { type: "V1Job", apiVersion: "batch/v1", kind: "Job" },
  secrets: { type: "V1Secret", apiVersion: "v1", kind: "Secret" },
}
const ENV_NAME = /^[-._a-zA-Z][-._a-zA-Z0-9]*$/
const QUANTITY = /^\d+(\.\d+)?(m|k|Ki|M|Mi|G|Gi|T|Ti)?$/

interface Meta {
  name?: string
  labels?: { [label: string]: string }
  annotations?: { [name: string]: string }
}

interface Container {
  name: string
  image?: string
  env?: { name: string }[]
  resources?: { requests?: { [name: string]: string }; limits?: { [name: string]: string } }
  volumeMounts?: { name: string; mountPath: string }[]
  securityContext?: { privileged?: boolean; allowPrivilegeEscalation?: boolean }
}

interface JobBody {
  metadata?: Meta
  spec?: {
    template?: {
      metadata?: Meta
      spec?: { restartPolicy?: string; containers?: Container[]; volumes?: { name: string }[] }
    }
    activeDeadlineSeconds?: number
    ttlSecondsAfterFinished?: number
  }
  stringData?: { [key: string]: string }
}

/** A decoder's words, for 400; then a validator's, for 422. */
export const problemsOf = (kind: Kind, body: JobBody): { decode: string[]; validate: string[] } => {
  const expected = TYPES[kind]
  if (expected === undefined) return { decode: [`${kind} cannot be created here`], validate: [] }
  const { apiVersion, kind: name } = body as { apiVersion?: string; kind?: string }
  const decode = typeProblems(body, expected.type, name ?? "")
  if (apiVersion !== expected.apiVersion || name !== expected.kind)
    decode.push(`${apiVersion} ${name} is not what this path takes`)
  if (decode.length > 0) return { decode, validate: [] }
  const validate = metaProblems(body.metadata ?? {}, "metadata")
  if (!NAME.test(body.metadata?.name ?? "")) validate.push("metadata.name: must be a DNS label")
  if (kind === "jobs") validate.push(...jobProblems(body))
  else if (Buffer.byteLength(JSON.stringify(body.stringData ?? {})) > MAX_SECRET) validate.push("data: Too long")
  return { decode, validate }
}

const metaProblems = ({ labels = {}, annotations = {} }: Meta, path: string): string[] => [
  ...Object.entries(labels).flatMap(([key, value]) =>
    LABEL_KEY.test(key) && LABEL_VALUE.test(value) ? [] : [`${path}.labels: Invalid value: "${key}=${value}"`],
  ),
  ...(JSON.stringify(annotations).length > MAX_ANNOTATIONS
    ? [`${path}.annotations: Too long: may not be more than 262144 bytes`]
    : []),
]

const jobProblems = ({ spec }: JobBody): string[] => {
  const pod = spec?.template?.spec
  const volumes = new Set((pod?.volumes ?? []).map(({ name }) => name))
  const problems = metaProblems(spec?.template?.metadata ?? {}, "spec.template")
  if (pod?.restartPolicy !== "Never" && pod?.restartPolicy !== "OnFailure") {
    problems.push('spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"')
  }
  for (const number of [spec?.activeDeadlineSeconds, spec?.ttlSecondsAfterFinished]) {
    if (number !== undefined && (!Number.isInteger(number) || number < 0)) problems.push("spec: must be a whole number")
  }
  for (const container of pod?.containers ?? []) problems.push(...containerProblems(container, volumes))
  return problems
}

const containerProblems = (container: Container, volumes: ReadonlySet<string>): string[] => {
  const problems: string[] = []
  if (!NAME.test(container.name)) problems.push("containers[0].name: must be a DNS label")
  if ((container.image ?? "") === "") problems.push("containers[0].image: Required value")
  for (const { name } of container.env ?? []) if (!ENV_NAME.test(name)) problems.push(`env: Invalid value: "${name}"`)
  for (const { name, mountPath } of container.volumeMounts ?? []) {
    if (!volumes.has(name)) problems.push(`volumeMounts[0].name: Not found: "${name}"`)
    if (mountPath.includes(":")) problems.push("mountPath: must not contain ':'")
  }
  const { requests = {}, limits = {} } = container.resources ?? {}
  for (const value of [...Object.values(requests), ...Object.values(limits)]) {
    if (!QUANTITY.test(value)) problems.push(`resources: Invalid value: "${value}"`)
  }
  const { privileged, allowPrivilegeEscalation } = container.securityContext ?? {}
  if (privileged === true && allowPrivilegeEscalation === false) {
    problems.push("cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
  }
  return problems
}

/** What deploy/kubernetes/rbac.yaml allows; everything else is forbidden. */
export const RIGHTS: Readonly<Record<string, readonly string[]>> = {
  jobs: ["create", "get", "list", "watch", "delete"],
  pods: ["list", "watch"],
  "pods/log": ["get"],
  secrets: ["create"],
  events: ["list"],
}

const VERBS: Readonly<Record<string, string>> = { POST: "create", LOG: "get" }

export const isAllowed = (verb: string, kind: Kind): boolean =>
  RIGHTS[verb === "LOG" ? "pods/log" : kind]?.includes(VERBS[verb] ?? verb.toLowerCase()) === true

/** Query parameters that each request may have. */
export const QUERIES: Readonly<Record<string, readonly string[]>> = {
  LIST: ["labelSelector", "fieldSelector", "limit", "continue"],
  WATCH: ["watch", "labelSelector", "resourceVersion", "allowWatchBookmarks", "timeoutSeconds"],
  GET: [],
  LOG: ["container", "follow", "timestamps", "sinceTime"],
  POST: ["fieldValidation", "fieldManager"],
  DELETE: ["propagationPolicy", "gracePeriodSeconds"],
}

export const matches = (selector: string, labels: { [label: string]: string } = {}): boolean =>
  selector.split(",").every((part) => {
    const [key = "", value] = part.split("=")
    return value === undefined ? Object.hasOwn(labels, key) : labels[key] === value
  })
