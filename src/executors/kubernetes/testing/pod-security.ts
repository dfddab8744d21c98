// Checks pods against the Pod Security Standard "restricted"
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/).

import type { V1PodSpec } from "@kubernetes/client-node"

const VOLUMES = new Set("configMap csi downwardAPI emptyDir ephemeral image persistentVolumeClaim projected secret".split(" "))
const PROFILES = ["RuntimeDefault", "Localhost"]

/** Returns the violations in the wording of Kubernetes. */
export const restrictedProblems = (pod: V1PodSpec): string[] => {
  const { securityContext: podContext = {}, containers, initContainers = [], volumes = [] } = pod
  const problems: string[] = []
  if (pod.hostNetwork === true || pod.hostPID === true || pod.hostIPC === true) problems.push("host namespaces")
  if (podContext.sysctls !== undefined && podContext.sysctls.length > 0) problems.push("forbidden sysctls")
  if (podContext.runAsUser === 0) problems.push("runAsUser=0 (pod must not set runAsUser=0)")
  for (const { name, ...volume } of volumes) {
    const types = Object.keys(volume)
    if (!types.every((type) => VOLUMES.has(type)))
      problems.push(`restricted volume types (volume "${name}" uses ${types.join()})`)
  }
  for (const { name, securityContext: own = {}, ports = [] } of [...containers, ...initContainers]) {
    const about = `container "${name}" must`
    if (own.privileged === true) problems.push(`privileged (${about} not set securityContext.privileged=true)`)
    if (own.allowPrivilegeEscalation !== false) problems.push(`allowPrivilegeEscalation != false (${about} set it to false)`)
    if (own.procMount !== undefined && own.procMount !== "Default") problems.push(`procMount (${about} not set it)`)
    if (own.capabilities?.drop?.includes("ALL") !== true) problems.push(`unrestricted capabilities (${about} drop ALL)`)
    if (own.capabilities?.add?.some((one) => one !== "NET_BIND_SERVICE"))
      problems.push(`unrestricted capabilities (${about} not add)`)
    if ((own.runAsNonRoot ?? podContext.runAsNonRoot) !== true) problems.push(`runAsNonRoot != true (${about} set it to true)`)
    if (own.runAsUser === 0) problems.push(`runAsUser=0 (${about} not set it)`)
    if (!PROFILES.includes((own.seccompProfile ?? podContext.seccompProfile)?.type ?? ""))
      problems.push(`seccompProfile (${about} set it)`)
    if (ports.some(({ hostPort = 0 }) => hostPort !== 0)) problems.push(`hostPort (${about} not use it)`)
  }
  return problems
}

/** Returns the error with which such a namespace rejects the pod; null when it accepts it. */
export const forbiddenBy = (job: string, pod: V1PodSpec): string | null => {
  const problems = restrictedProblems(pod)
  return problems.length === 0
    ? null
    : `pods "${job}" is forbidden: violates PodSecurity "restricted:latest": ${problems.join(", ")}`
}
