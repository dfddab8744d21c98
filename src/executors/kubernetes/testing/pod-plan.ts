// Reads a pod's spec as a kubelet does: what the pod still waits for, and the command, variables and files of its container.

import type { PodPlan } from "./pod-process.ts"
import type { ApiObject, ObjectStorage } from "./object-storage.ts"

export interface PodSpec {
  containers: {
    image: string
    command?: string[]
    args?: string[]
    env?: { name: string; value?: string; valueFrom?: { secretKeyRef: { name: string; key: string } } }[]
    volumeMounts?: { name: string; mountPath: string }[]
  }[]
  volumes?: {
    name: string
    emptyDir?: object
    secret?: { secretName: string; items: { key: string; path: string }[] }
    downwardAPI?: { items: { path: string; fieldRef: { fieldPath: string } }[] }
  }[]
  nodeSelector?: { [label: string]: string }
  securityContext?: { runAsNonRoot?: boolean; runAsUser?: number }
  terminationGracePeriodSeconds?: number
}

const specOf = (pod: ApiObject): PodSpec => pod.spec as unknown as PodSpec
/** Matches images of a registry at which nothing listens. */
const MISSING = /^127\.0\.0\.1:1\//

/** Returns why the container cannot be started; null when it can. `shown`: the reason in the pod's status. */
export const waitingFor = (
  pod: ApiObject,
  storage: ObjectStorage,
  shown: string,
): { reason: string; message: string } | null => {
  const { containers, volumes = [], securityContext = {} } = specOf(pod)
  const { namespace } = pod.metadata
  const { image, env = [] } = containers[0]!
  for (const { secret } of volumes) {
    if (secret !== undefined && storage.get("secrets", namespace, secret.secretName) === undefined) {
      return { reason: "ContainerCreating", message: "" }
    }
  }
  if (/[A-Z ]/.test(image)) {
    return { reason: "InvalidImageName", message: `Failed to apply default image tag "${image}": couldn't parse image name` }
  }
  if (MISSING.test(image)) {
    const message = `failed to pull and unpack image "${image}": failed to resolve reference "${image}": connection refused`
    return shown === "ErrImagePull" || shown === "ImagePullBackOff"
      ? { reason: "ImagePullBackOff", message: `Back-off pulling image "${image}": ErrImagePull: ${message}` }
      : { reason: "ErrImagePull", message }
  }
  if (securityContext.runAsNonRoot === true && (securityContext.runAsUser ?? 0) === 0) {
    return {
      reason: "CreateContainerConfigError",
      message: 'container has runAsNonRoot and image will run as root (pod: "x", container: task)',
    }
  }
  for (const { valueFrom } of env) {
    const { name, key } = valueFrom?.secretKeyRef ?? {}
    if (name === undefined) continue
    const secret = storage.get("secrets", namespace, name)
    if (secret === undefined) return { reason: "CreateContainerConfigError", message: `secret "${name}" not found` }
    if (secret.data?.[key ?? ""] === undefined) {
      return { reason: "CreateContainerConfigError", message: `couldn't find key ${key} in Secret ${name}` }
    }
  }
  return null
}

export const planOf = (pod: ApiObject, storage: ObjectStorage): PodPlan => {
  const { containers, volumes = [] } = specOf(pod)
  const container = containers[0]!
  const { namespace, annotations = {} } = pod.metadata
  const secret = (name: string, key: string): string =>
    Buffer.from(storage.get("secrets", namespace, name)?.data?.[key] ?? "", "base64").toString()
  const env: { [name: string]: string } = {}
  for (const { name, value = "", valueFrom } of container.env ?? []) {
    env[name] = valueFrom === undefined ? expand(value, env) : secret(valueFrom.secretKeyRef.name, valueFrom.secretKeyRef.key)
  }
  const files: { [path: string]: string } = {}
  for (const { name, mountPath } of container.volumeMounts ?? []) {
    const volume = volumes.find((one) => one.name === name)
    for (const { key, path } of volume?.secret?.items ?? [])
      files[`${mountPath}/${path}`] = secret(volume!.secret!.secretName, key)
    for (const { path, fieldRef } of volume?.downwardAPI?.items ?? []) {
      const annotation = /^metadata\.annotations\['(.+)'\]$/.exec(fieldRef.fieldPath)?.[1] ?? ""
      files[`${mountPath}/${path}`] = annotations[annotation] ?? ""
    }
  }
  const { command = [], args = [] } = container
  return { command: [...command, ...args].map((text) => expand(text, env)), env, files }
}

/** Replaces `$(NAME)` by the value of an existing variable, and `$$` by a dollar sign. */
export const expand = (text: string, env: { [name: string]: string }): string =>
  text.replace(/\$(\$|\(([^)]*)\))/g, (whole, _, name: string | undefined) => (name === undefined ? "$" : (env[name] ?? whole)))
