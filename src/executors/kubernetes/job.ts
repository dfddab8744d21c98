// What the cluster is asked for: the Job of one attempt, and the Secret beside it when there is something to hide or too much to say. Pure.

import type { V1Container, V1Job, V1JobSpec, V1PodSpec, V1Secret, V1Volume, V1VolumeMount } from "@kubernetes/client-node"
import type { KubernetesDefinition, KubernetesSecurity } from "../../core/model/definition.ts"
import { parseDuration } from "../../core/model/quantities.ts"
import { SECRET_VARIABLE } from "../../protocol/wire/exec-files.ts"
import { type Environment, orkVariables } from "../environment.ts"
import type { Assignment } from "../executor.ts"
import { CONTAINER, jobName, LABELS } from "./shapes.ts"

const FOLDER = "/ork"
const INPUT_FILE = "input.json"
const READY_FILE = "ready"
const INPUT_ANNOTATION = "ork.dev/input"
const VOLUME = "ork"
/** What a container writes there, the cluster shows with its end: up to 4 KiB. */
const OUTPUT_PATH = "/dev/termination-log"
/** It is sent along with each change of the Job and the pod; the cluster itself would take 256 KiB. */
const MAX_ANNOTATION = 16 * 1024
/** A Secret may have 1 MiB. */
export const MAX_SECRET = 1000 * 1024
/** nobody, on every Linux; images that name no user would be root. */
const NOBODY = 65_534
/** A finished Job stays at least this long: its log is read then. */
const MIN_TTL_MS = 60_000
/** Over the time that Ork itself gives it, for when no server is there to stop it. */
const SPARE_S = 60

export type KubernetesOptions = KubernetesDefinition

/** The task's own options; definition/kubernetes-fields.ts has checked their shape. */
export const optionsOf = (assignment: Assignment): KubernetesOptions =>
  (assignment.fields["kubernetes"] ?? {}) as KubernetesOptions

export interface JobParts {
  assignment: Assignment
  /** Of the settings. */
  ttlMs: number
  /** What `ork exec` is told; null: the container runs the command itself. */
  exec: Environment | null
}

export interface Request {
  job: V1Job
  /** By its keys; null: none is needed. */
  secret: { [key: string]: string } | null
}

export const requestOf = ({ assignment, ttlMs, exec }: JobParts): Request => {
  const options = optionsOf(assignment)
  const input = exec === null ? JSON.stringify(assignment.input) : null
  const variables = Object.entries(exec ?? containerEnvironment(assignment))
  const hidden = variables.filter(([name, value]) =>
    exec === null ? holdsSecret(value, assignment.secrets) : name.startsWith(SECRET_VARIABLE),
  )
  const large = input !== null && (input.length > MAX_ANNOTATION || holdsSecret(input, assignment.secrets))
  // A pod waits for a Secret that it mounts; one that it only takes variables from would fail first.
  const hides = hidden.length > 0 || large
  const file = input === null ? READY_FILE : INPUT_FILE
  const secret = hides ? { ...Object.fromEntries(hidden), [file]: input ?? "" } : null
  const keys = new Set(hidden.map(([name]) => name))
  const mounts = input !== null || hides
  const name = jobName(assignment.attemptId)
  const labels = labelsOf(assignment, options)
  const annotations = {
    ...options.annotations,
    ...(input !== null && !hides && { [INPUT_ANNOTATION]: input }),
  }
  const container: V1Container = {
    name: CONTAINER,
    image: assignment.node.image ?? "",
    ...commandOf(assignment.command, options, exec !== null),
    env: variables.map(([variable, value]) =>
      keys.has(variable)
        ? { name: variable, valueFrom: { secretKeyRef: { name, key: variable } } }
        : { name: variable, value: literally(value) },
    ),
    ...(options.env_from !== undefined && { envFrom: options.env_from }),
    ...(options.workdir !== undefined && { workingDir: options.workdir }),
    ...(options.image_pull_policy !== undefined && { imagePullPolicy: options.image_pull_policy }),
    resources: resourcesOf(assignment, options),
    securityContext: containerSecurity(options.security ?? {}),
    volumeMounts: [
      ...(mounts ? [{ name: VOLUME, mountPath: FOLDER, readOnly: true }] : []),
      ...((options.volume_mounts ?? []) as unknown as V1VolumeMount[]),
    ],
    // What `ork exec` says before it can reach its store is found there too.
    ...(exec !== null && { terminationMessagePolicy: "FallbackToLogsOnError" }),
  }
  const volume: V1Volume = hides
    ? { name: VOLUME, secret: { secretName: name, items: [{ key: file, path: file }] } }
    : {
        name: VOLUME,
        downwardAPI: {
          items: [{ path: INPUT_FILE, fieldRef: { fieldPath: `metadata.annotations['${INPUT_ANNOTATION}']` } }],
        },
      }
  const pod: V1PodSpec = {
    ...podOf(assignment, options),
    containers: [container],
    volumes: [...(mounts ? [volume] : []), ...((options.volumes ?? []) as unknown as V1Volume[])],
  }
  const spec: V1JobSpec = {
    backoffLimit: 0,
    ...deadlineOf(assignment),
    ttlSecondsAfterFinished: Math.ceil(Math.max(MIN_TTL_MS, parseDuration(options.ttl) ?? ttlMs) / 1000),
    template: { metadata: { labels, annotations }, spec: pod },
  }
  const { annotations: own } = options
  const metadata = { name, labels, ...(own !== undefined && { annotations: own }) }
  return { job: { apiVersion: "batch/v1", kind: "Job", metadata, spec }, secret }
}

/** Goes with its Job. Until it is there, the pod waits for it. */
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

/** Kubernetes puts values in place of `$(NAME)`, and `$` in place of `$$`. */
const literally = (text: string): string => text.replaceAll("$", "$$$$")

/** A script needs a shell whatever the image's entrypoint is; an argument list goes to the entrypoint, as with docker. */
const commandOf = (
  command: Assignment["command"],
  { entrypoint }: KubernetesOptions,
  exec: boolean,
): Pick<V1Container, "command" | "args"> => {
  const given = entrypoint?.map(literally)
  if (exec) return { command: given ?? ["ork", "exec"] }
  if (command === null) return given === undefined ? {} : { command: given }
  if ("shell" in command) return { command: given ?? ["/bin/sh", "-c"], args: [literally(command.shell)] }
  return { ...(given !== undefined && { command: given }), args: command.argv.map(literally) }
}

/** A value of a label is at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends. */
export const labelValue = (text: string): string =>
  text
    .replace(/[^A-Za-z0-9_.-]+/g, "-")
    .slice(0, 63)
    .replace(/^[^A-Za-z0-9]+|[^A-Za-z0-9]+$/g, "")

const labelsOf = (assignment: Assignment, { labels = {} }: KubernetesOptions): { [label: string]: string } => ({
  ...labels,
  [LABELS.managedBy]: "ork",
  [LABELS.attempt]: assignment.attemptId,
  [LABELS.run]: labelValue(assignment.runId),
  [LABELS.task]: labelValue(assignment.task),
  [LABELS.workflow]: labelValue(assignment.workflow),
})

const resourcesOf = ({ node: { resources } }: Assignment, { requests = {}, limits = {} }: KubernetesOptions) => {
  const asked = {
    ...(resources?.cpu !== undefined && { cpu: `${Math.max(1, Math.round(resources.cpu * 1000))}m` }),
    ...(resources?.memoryBytes !== undefined && { memory: String(resources.memoryBytes) }),
  }
  const texts = (given: object): { [resource: string]: string } =>
    Object.fromEntries(Object.entries(given).map(([name, value]) => [name, String(value)]))
  return { requests: { ...asked, ...texts(requests) }, limits: { ...asked, ...texts(limits) } }
}

const containerSecurity = (security: KubernetesSecurity): NonNullable<V1Container["securityContext"]> => {
  const { privileged = false, capabilities = [], read_only_root } = security
  return {
    // The cluster refuses a privileged container that may not gain privileges.
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

const podOf = ({ graceMs }: Assignment, options: KubernetesOptions): Omit<V1PodSpec, "containers" | "volumes"> => ({
  restartPolicy: "Never",
  automountServiceAccountToken: options.automount_token ?? false,
  enableServiceLinks: false,
  // With none, a pod that is deleted is forgotten at once, though it may still run.
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

/** From its creation on: what it may wait and what it may run. */
const deadlineOf = ({ node, graceMs }: Assignment): Pick<V1JobSpec, "activeDeadlineSeconds"> =>
  node.timeoutMs === null
    ? {}
    : { activeDeadlineSeconds: Math.ceil((node.timeoutMs + (node.startTimeoutMs ?? 0) + graceMs) / 1000) + SPARE_S }
