// Builds the Job of one attempt, and the Secret beside it when it has secrets, a callback or a large input. Pure.

import type { V1Container, V1Job, V1JobSpec, V1PodSpec, V1Secret, V1Volume, V1VolumeMount } from "@kubernetes/client-node"
import type { KubernetesDefinition, KubernetesSecurity } from "../../core/model/definition.ts"
import { parseDuration } from "../../core/values/quantities.ts"
import { SECRET_VARIABLE } from "../../protocol/wire/exec-files.ts"
import { type Environment, orkVariables } from "../environment.ts"
import { interpreterOf, type Assignment } from "../executor.ts"
import { CONTAINER, jobName, LABELS } from "./shapes.ts"

const FOLDER = "/ork"
const INPUT_FILE = "input.json"
const READY_FILE = "ready"
const INPUT_ANNOTATION = "ork.dev/input"
const VOLUME = "ork"
/** The file whose first 4 KiB the cluster reports as the container's termination message. */
const OUTPUT_PATH = "/dev/termination-log"
/** Annotations are part of every change of the Job and the pod, so the limit is far below the cluster's 256 KiB. */
const MAX_ANNOTATION_BYTES = 16 * 1024
/** Clusters limit a Secret to 1 MiB. */
export const MAX_SECRET_BYTES = 1000 * 1024
/** User `nobody` on Linux, for images that would run as root. */
const NOBODY = 65_534
/** A finished Job must stay until its log was read. */
const MIN_TTL_MS = 60_000
/** Seconds between the end that Ork enforces and the cluster's own deadline, which is for times without a server. */
const DEADLINE_MARGIN_S = 60

/** Returns the task's options, whose shape definition/executor-fields.ts has checked. */
export const optionsOf = (assignment: Assignment): KubernetesDefinition =>
  (assignment.fields["kubernetes"] ?? {}) as KubernetesDefinition

/** Returns whether the container runs `ork exec`, which functions need. */
export const runsExec = (assignment: Assignment): boolean =>
  optionsOf(assignment).exec === true || assignment.node.file !== undefined

export interface JobParts {
  assignment: Assignment
  /** Time that the settings keep a finished Job. */
  ttlMs: number
  /** Variables for `ork exec`; null when the container runs the command itself. */
  exec: Environment | null
}

export interface JobRequest {
  job: V1Job
  /** Values of the Secret by key; null when none is needed. */
  secret: { [key: string]: string } | null
}

export const requestOf = ({ assignment, ttlMs, exec }: JobParts): JobRequest => {
  const options = optionsOf(assignment)
  const delivery = deliveryOf(assignment, exec)
  const name = jobName(assignment.attemptId)
  const labels = labelsOf(assignment, options)
  const { annotations: own } = options
  const annotations = { ...own, ...(delivery.kind === "annotation" && { [INPUT_ANNOTATION]: delivery.input }) }
  const pod: V1PodSpec = {
    ...podOf(assignment, options),
    containers: [containerOf(assignment, delivery, exec !== null)],
    volumes: [...volumesOf(name, delivery), ...((options.volumes ?? []) as unknown as V1Volume[])],
  }
  const spec: V1JobSpec = {
    backoffLimit: 0,
    ...deadlineOf(assignment),
    ttlSecondsAfterFinished: Math.ceil(Math.max(MIN_TTL_MS, parseDuration(options.ttl) ?? ttlMs) / 1000),
    template: { metadata: { labels, annotations }, spec: pod },
  }
  const metadata = { name, labels, ...(own !== undefined && { annotations: own }) }
  const secret = delivery.kind === "secret" ? delivery.data : null
  return { job: { apiVersion: "batch/v1", kind: "Job", metadata, spec }, secret }
}

/** The way in which the container receives its variables and its input. `hidden` variables are in the Secret. */
type Delivery = { variables: [name: string, value: string][]; hidden: ReadonlySet<string> } & (
  | { kind: "secret"; data: { [key: string]: string }; file: string }
  | { kind: "annotation"; input: string }
  /** `ork exec` reads its input from the object store. */
  | { kind: "none" }
)

const deliveryOf = (assignment: Assignment, exec: Environment | null): Delivery => {
  const { secrets } = assignment
  const input = exec === null ? JSON.stringify(assignment.input) : null
  const variables = Object.entries(exec ?? containerEnvironment(assignment))
  const callback = assignment.callback?.() ?? {}
  const secretVariables = variables.filter(([name, value]) =>
    exec === null ? Object.hasOwn(callback, name) || holdsSecret(value, secrets) : name.startsWith(SECRET_VARIABLE),
  )
  const hidden = new Set(secretVariables.map(([name]) => name))
  const needsSecret = input !== null && (input.length > MAX_ANNOTATION_BYTES || holdsSecret(input, secrets))
  if (hidden.size > 0 || needsSecret) {
    // The Secret always has a file: a pod waits for a Secret that it mounts, but fails if only its variables refer to it.
    const file = input === null ? READY_FILE : INPUT_FILE
    const data = { ...Object.fromEntries(secretVariables), [file]: input ?? "" }
    return { kind: "secret", variables, hidden, data, file }
  }
  return input === null ? { kind: "none", variables, hidden } : { kind: "annotation", variables, hidden, input }
}

const containerOf = (assignment: Assignment, delivery: Delivery, exec: boolean): V1Container => {
  const options = optionsOf(assignment)
  const name = jobName(assignment.attemptId)
  return {
    name: CONTAINER,
    image: assignment.node.image ?? "",
    ...commandOf(assignment.command, options, exec),
    env: delivery.variables.map(([variable, value]) =>
      delivery.hidden.has(variable)
        ? { name: variable, valueFrom: { secretKeyRef: { name, key: variable } } }
        : { name: variable, value: escapeDollars(value) },
    ),
    ...(options.env_from !== undefined && { envFrom: options.env_from }),
    ...(options.workdir !== undefined && { workingDir: options.workdir }),
    ...(options.image_pull_policy !== undefined && { imagePullPolicy: options.image_pull_policy }),
    resources: resourcesOf(assignment, options),
    securityContext: containerSecurity(options.security ?? {}),
    volumeMounts: [
      ...(delivery.kind === "none" ? [] : [{ name: VOLUME, mountPath: FOLDER, readOnly: true }]),
      ...((options.volume_mounts ?? []) as unknown as V1VolumeMount[]),
    ],
    // Includes what `ork exec` prints before it reaches the object store.
    ...(exec && { terminationMessagePolicy: "FallbackToLogsOnError" }),
  }
}

const volumesOf = (name: string, delivery: Delivery): V1Volume[] => {
  switch (delivery.kind) {
    case "none":
      return []
    case "secret": {
      const { file } = delivery
      return [{ name: VOLUME, secret: { secretName: name, items: [{ key: file, path: file }] } }]
    }
    case "annotation": {
      const fieldPath = `metadata.annotations['${INPUT_ANNOTATION}']`
      return [{ name: VOLUME, downwardAPI: { items: [{ path: INPUT_FILE, fieldRef: { fieldPath } }] } }]
    }
    default:
      return delivery satisfies never
  }
}

/** Builds the Secret, which the cluster deletes together with its Job. The pod waits until it exists. */
export const secretOf = (assignment: Assignment, data: { [key: string]: string }, jobUid: string): V1Secret => {
  const name = jobName(assignment.attemptId)
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: {
      name,
      labels: labelsOf(assignment, {}),
      ownerReferences: [{ apiVersion: "batch/v1", kind: "Job", name, uid: jobUid }],
    },
    immutable: true,
    stringData: data,
  }
}

export const containerEnvironment = (assignment: Assignment): Environment => ({
  ...assignment.env,
  ...orkVariables(assignment, { inputPath: `${FOLDER}/${INPUT_FILE}`, outputPath: OUTPUT_PATH, upstreamDir: null }),
})

const holdsSecret = (value: string, secrets: readonly string[]): boolean =>
  secrets.some((secret) => secret !== "" && (value.includes(secret) || value.includes(JSON.stringify(secret).slice(1, -1))))

/** Escapes `$`: Kubernetes substitutes `$(NAME)` and `$$`. */
const escapeDollars = (text: string): string => text.replaceAll("$", "$$$$")

/** Runs a script in a shell; passes an argument list to the image's entrypoint, as docker does. */
const commandOf = (
  command: Assignment["command"],
  { entrypoint }: KubernetesDefinition,
  exec: boolean,
): Pick<V1Container, "command" | "args"> => {
  const given = entrypoint?.map(escapeDollars)
  if (exec) return { command: given ?? ["ork", "exec"] }
  if (command === null) return given === undefined ? {} : { command: given }
  if ("shell" in command)
    return { command: given ?? interpreterOf(command).map(escapeDollars), args: [escapeDollars(command.shell)] }
  return { ...(given !== undefined && { command: given }), args: command.argv.map(escapeDollars) }
}

/** Makes a valid label value: at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends. */
export const labelValue = (text: string): string =>
  text
    .replace(/[^A-Za-z0-9_.-]+/g, "-")
    .slice(0, 63)
    .replace(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, "")

const labelsOf = (assignment: Assignment, { labels = {} }: KubernetesDefinition): { [label: string]: string } => ({
  ...labels,
  [LABELS.managedBy]: "ork",
  [LABELS.attempt]: assignment.attemptId,
  [LABELS.run]: labelValue(assignment.runId),
  [LABELS.task]: labelValue(assignment.task),
  [LABELS.taskId]: labelValue(assignment.taskId),
  [LABELS.workflow]: labelValue(assignment.workflow),
})

const resourcesOf = ({ node: { resources } }: Assignment, { requests = {}, limits = {} }: KubernetesDefinition) => {
  const common = {
    ...(resources?.cpu !== undefined && { cpu: `${Math.max(1, Math.round(resources.cpu * 1000))}m` }),
    ...(resources?.memoryBytes !== undefined && { memory: String(resources.memoryBytes) }),
  }
  const toStrings = (given: object): { [resource: string]: string } =>
    Object.fromEntries(Object.entries(given).map(([name, value]) => [name, String(value)]))
  return { requests: { ...common, ...toStrings(requests) }, limits: { ...common, ...toStrings(limits) } }
}

const containerSecurity = (security: KubernetesSecurity): NonNullable<V1Container["securityContext"]> => {
  const { privileged = false, capabilities = [], read_only_root } = security
  return {
    // The cluster rejects a privileged container without privilege escalation.
    allowPrivilegeEscalation: security.allow_privilege_escalation ?? privileged,
    ...(privileged && { privileged }),
    ...(read_only_root !== undefined && { readOnlyRootFilesystem: read_only_root }),
    ...(!privileged && { capabilities: { drop: ["ALL"], ...(capabilities.length > 0 && { add: capabilities }) } }),
  }
}

const podSecurity = (security: KubernetesSecurity): NonNullable<V1PodSpec["securityContext"]> => {
  const root = security.run_as_non_root === false
  const { run_as_user: user = root ? "image" : NOBODY, run_as_group: group = user === NOBODY ? NOBODY : "image" } = security
  return {
    runAsNonRoot: !root,
    ...(user !== "image" && { runAsUser: user }),
    ...(group !== "image" && { runAsGroup: group }),
    ...(security.fs_group !== undefined && { fsGroup: security.fs_group }),
    seccompProfile: { type: security.seccomp ?? "RuntimeDefault" },
  }
}

const podOf = ({ graceMs }: Assignment, options: KubernetesDefinition): Omit<V1PodSpec, "containers" | "volumes"> => ({
  restartPolicy: "Never",
  automountServiceAccountToken: options.automount_token ?? false,
  enableServiceLinks: false,
  // With 0, the cluster would forget a deleted pod at once, even if it still runs.
  terminationGracePeriodSeconds: Math.max(1, Math.ceil(graceMs / 1000)),
  securityContext: podSecurity(options.security ?? {}),
  ...(options.service_account !== undefined && { serviceAccountName: options.service_account }),
  ...(options.node_selector !== undefined && { nodeSelector: options.node_selector }),
  ...(options.tolerations !== undefined && { tolerations: options.tolerations }),
  ...(options.affinity !== undefined && { affinity: options.affinity }),
  ...(options.priority_class !== undefined && { priorityClassName: options.priority_class }),
  ...(options.runtime_class !== undefined && { runtimeClassName: options.runtime_class }),
  ...(options.image_pull_secrets !== undefined && {
    imagePullSecrets: options.image_pull_secrets.map((name) => ({ name })),
  }),
})

/** Returns the deadline, which counts from the Job's creation: time to start and time to run. */
const deadlineOf = ({ node, graceMs }: Assignment): Pick<V1JobSpec, "activeDeadlineSeconds"> =>
  node.timeoutMs === null
    ? {}
    : { activeDeadlineSeconds: Math.ceil((node.timeoutMs + (node.startTimeoutMs ?? 0) + graceMs) / 1000) + DEADLINE_MARGIN_S }
