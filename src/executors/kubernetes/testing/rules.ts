// Validates objects as an API server does: by the published types, and by the rules for names, labels and Jobs that the types
// do not express.

import { typeProblems } from "./types.ts"
import type { Kind } from "./object-storage.ts"

const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const SUBDOMAIN = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/
const LABEL_KEY = /^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$/
const LABEL_VALUE = /^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$/
const SECRET_KEY = /^[-._a-zA-Z0-9]{1,253}$/
const ENV_NAME = /^[-._a-zA-Z][-._a-zA-Z0-9]*$/
const QUANTITY = /^[+-]?(\d+\.?\d*|\.\d+)(m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei|[eE][+-]?\d+)?$/
const MAX_ANNOTATIONS = 256 * 1024
const MAX_SECRET = 1024 * 1024
const MAX_OBJECT = 1536 * 1024
const MAX_INT32 = 2 ** 31 - 1
const TYPES: Partial<Record<Kind, { type: string; apiVersion: string; kind: string }>> = {
  jobs: { type: "V1Job", apiVersion: "batch/v1", kind: "Job" },
  secrets: { type: "V1Secret", apiVersion: "v1", kind: "Secret" },
}

interface Meta {
  name?: string
  labels?: { [label: string]: string }
  annotations?: { [name: string]: string }
}

interface Container {
  name: string
  image?: string
  env?: { name: string; value?: string; valueFrom?: object }[]
  resources?: { requests?: { [name: string]: string }; limits?: { [name: string]: string } }
  volumeMounts?: { name: string; mountPath: string }[]
  securityContext?: { privileged?: boolean; allowPrivilegeEscalation?: boolean }
}

interface JobBody {
  metadata?: Meta
  spec?: {
    template?: {
      metadata?: Meta
      spec?: {
        restartPolicy?: string
        terminationGracePeriodSeconds?: number
        containers?: Container[]
        volumes?: { name: string }[]
      }
    }
    activeDeadlineSeconds?: number
    ttlSecondsAfterFinished?: number
  }
  stringData?: { [key: string]: string }
}

/** Returns the errors of decoding, for a 400, and of validation, for a 422. */
export const problemsOf = (kind: Kind, body: JobBody): { decode: string[]; validate: string[] } => {
  const expected = TYPES[kind]
  if (expected === undefined) return { decode: [`${kind} cannot be created here`], validate: [] }
  const { apiVersion, kind: name } = body as { apiVersion?: string; kind?: string }
  const decode = typeProblems(body, expected.type, name ?? "")
  if (apiVersion !== expected.apiVersion || name !== expected.kind) decode.push(`${apiVersion} ${name} does not match the path`)
  if (decode.length > 0) return { decode, validate: [] }
  const validate = metaProblems(body.metadata ?? {}, "metadata")
  if (!SUBDOMAIN.test(body.metadata?.name ?? "")) validate.push("metadata.name: must be a lowercase RFC 1123 subdomain")
  if (Buffer.byteLength(JSON.stringify(body)) > MAX_OBJECT) validate.push("etcdserver: request is too large")
  validate.push(...(kind === "jobs" ? jobProblems(body) : secretProblems(body)))
  return { decode, validate }
}

const metaProblems = ({ labels = {}, annotations = {} }: Meta, path: string): string[] => [
  ...Object.entries(labels).flatMap(([key, value]) =>
    LABEL_KEY.test(key) && LABEL_VALUE.test(value) ? [] : [`${path}.labels: Invalid value: "${key}=${value}"`],
  ),
  ...Object.keys(annotations).flatMap((key) =>
    LABEL_KEY.test(key.toLowerCase()) ? [] : [`${path}.annotations: Invalid value: "${key}"`],
  ),
  ...(JSON.stringify(annotations).length > MAX_ANNOTATIONS
    ? [`${path}.annotations: Too long: may not be more than 262144 bytes`]
    : []),
]

const secretProblems = ({ stringData = {} }: JobBody): string[] => {
  const size = Object.values(stringData).reduce((sum, value) => sum + Buffer.byteLength(value), 0)
  const keys = Object.keys(stringData).filter((key) => !SECRET_KEY.test(key))
  return [
    ...(size > MAX_SECRET ? ["data: Too long: may not be more than 1048576 bytes"] : []),
    ...keys.map((key) => `data[${key}]: Invalid value`),
  ]
}

const jobProblems = ({ metadata, spec }: JobBody): string[] => {
  const pod = spec?.template?.spec
  const volumes = (pod?.volumes ?? []).map(({ name }) => name)
  const problems = metaProblems(spec?.template?.metadata ?? {}, "spec.template")
  // The name becomes the value of a label of its pods.
  if ((metadata?.name ?? "").length > 63) problems.push("spec.template.labels: must be no more than 63 characters")
  if (pod?.restartPolicy !== "Never" && pod?.restartPolicy !== "OnFailure") {
    problems.push('spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"')
  }
  const { activeDeadlineSeconds, ttlSecondsAfterFinished } = spec ?? {}
  for (const number of [activeDeadlineSeconds, ttlSecondsAfterFinished, pod?.terminationGracePeriodSeconds]) {
    if (number !== undefined && (!Number.isInteger(number) || number < 0)) problems.push("spec: must be a whole number")
  }
  if ((ttlSecondsAfterFinished ?? 0) > MAX_INT32) problems.push("spec.ttlSecondsAfterFinished: is not an int32")
  problems.push(...duplicates(volumes, "spec.template.spec.volumes"))
  for (const name of volumes) if (!LABEL.test(name)) problems.push(`spec.template.spec.volumes: Invalid value: "${name}"`)
  for (const container of pod?.containers ?? []) problems.push(...containerProblems(container, new Set(volumes)))
  return problems
}

const duplicates = (values: string[], path: string): string[] =>
  values.filter((value, i) => values.indexOf(value) < i).map((value) => `${path}: Duplicate value: "${value}"`)

const containerProblems = (container: Container, volumes: ReadonlySet<string>): string[] => {
  const { name: called, image = "", env = [], volumeMounts = [], securityContext = {} } = container
  const problems: string[] = []
  if (!LABEL.test(called)) problems.push("containers[0].name: must be a lowercase RFC 1123 label")
  if (image === "") problems.push("containers[0].image: Required value")
  if (image.trim() !== image) problems.push("containers[0].image: must not have leading or trailing whitespace")
  for (const { name, value = "", valueFrom } of env) {
    if (!ENV_NAME.test(name)) problems.push(`env: Invalid value: "${name}"`)
    if (value !== "" && valueFrom !== undefined) problems.push("env.valueFrom: may not be specified when `value` is not empty")
  }
  for (const { name, mountPath } of volumeMounts) {
    if (!volumes.has(name)) problems.push(`volumeMounts[0].name: Not found: "${name}"`)
    if (mountPath.includes(":")) problems.push("mountPath: must not contain ':'")
  }
  problems.push(
    ...duplicates(
      volumeMounts.map(({ mountPath }) => mountPath),
      "containers[0].volumeMounts.mountPath",
    ),
  )
  const { requests = {}, limits = {} } = container.resources ?? {}
  for (const value of [...Object.values(requests), ...Object.values(limits)]) {
    if (!QUANTITY.test(value))
      problems.push(`resources: Invalid value: "${value}": quantities must match the regular expression`)
  }
  if (securityContext.privileged === true && securityContext.allowPrivilegeEscalation === false) {
    problems.push("cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
  }
  return problems
}

/** Query parameters that each request may have. */
export const QUERIES: Readonly<Record<string, readonly string[]>> = {
  LIST: ["labelSelector", "fieldSelector", "limit", "continue"],
  CONTINUE: ["labelSelector", "fieldSelector", "limit", "continue"],
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
