// The fields of Jobs and pods that the executor reads, and the names and paths of its objects.

export interface Meta {
  name: string
  uid: string
  resourceVersion: string
  creationTimestamp?: string
  deletionTimestamp?: string
  labels?: { [label: string]: string }
  ownerReferences?: { uid: string }[]
}

export interface Condition {
  type: string
  status: string
  reason?: string
  message?: string
}

export interface Watched {
  metadata: Meta
}

export interface JobObject extends Watched {
  status?: { conditions?: Condition[] }
}

export interface PodObject extends Watched {
  status?: {
    phase?: string
    reason?: string
    message?: string
    conditions?: Condition[]
    initContainerStatuses?: ContainerStatus[]
    containerStatuses?: ContainerStatus[]
  }
}

export interface ContainerStatus {
  name: string
  state?: {
    waiting?: { reason?: string; message?: string }
    running?: { startedAt?: string }
    terminated?: Terminated
  }
}

export interface Terminated {
  exitCode: number
  signal?: number
  reason?: string
  message?: string
  startedAt?: string | null
  finishedAt?: string | null
}

/** Drops the fields that are not read, which may contain a task's whole input. */
export const slim = <T extends Watched & { status?: unknown }>(object: T): T => {
  const { name, uid, resourceVersion, creationTimestamp, deletionTimestamp, labels, ownerReferences } = object.metadata
  const metadata: Meta = {
    name,
    uid,
    resourceVersion,
    ...(creationTimestamp !== undefined && { creationTimestamp }),
    ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    ...(labels !== undefined && { labels }),
    ...(ownerReferences !== undefined && { ownerReferences: ownerReferences.map((owner) => ({ uid: owner.uid })) }),
  }
  return { metadata, status: object.status } as T
}

export const CONTAINER = "task"

/** Labels by which Ork finds its objects. */
export const LABELS = {
  managedBy: "app.kubernetes.io/managed-by",
  attempt: "ork.dev/attempt",
  run: "ork.dev/run",
  task: "ork.dev/task",
  taskId: "ork.dev/task-id",
  workflow: "ork.dev/workflow",
} as const

export const SELECTOR = `${LABELS.managedBy}=ork,${LABELS.attempt}`

export const jobName = (attemptId: string): string => `ork-${attemptId}`

export const jobsPath = (namespace: string): string => `/apis/batch/v1/namespaces/${encodeURIComponent(namespace)}/jobs`
export const corePath = (namespace: string, kind: "pods" | "secrets" | "events"): string =>
  `/api/v1/namespaces/${encodeURIComponent(namespace)}/${kind}`

/** Compares resource versions, which are opaque by contract but numbers on every known server. */
export const isOlder = (a: string, b: string): boolean => {
  if (!/^\d+$/.test(a) || !/^\d+$/.test(b)) return false
  return a.length === b.length ? a < b : a.length < b.length
}

export const hasCondition = (conditions: Condition[] | undefined, type: string): Condition | undefined =>
  conditions?.find((one) => one.type === type && one.status === "True")
