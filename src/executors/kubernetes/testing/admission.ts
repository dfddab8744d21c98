// Completes an accepted object as an API server does: defaults, labels and a selector of its own, fields that only the server
// writes.

import { randomUUID } from "node:crypto"
import type { NewObject, Kind } from "./object-storage.ts"

type Part = Record<string, unknown>

export const admitted = (kind: Kind, given: NewObject): NewObject => {
  const metadata = { ...given.metadata, generation: 1, managedFields: [{ manager: "ork", operation: "Update" }] }
  if (kind === "secrets") {
    const { stringData, data, ...rest } = given
    const texts = Object.entries((stringData ?? {}) as { [key: string]: string })
    const encoded = Object.fromEntries(texts.map(([key, value]) => [key, Buffer.from(value).toString("base64")]))
    return { ...rest, metadata, data: { ...(data as object), ...encoded }, type: "Opaque" }
  }
  return { ...given, metadata, spec: jobSpec(given.spec as Part, given.metadata.name), status: {} }
}

const jobSpec = (spec: Part, name: string): Part => {
  const uid = randomUUID()
  const template = spec["template"] as { metadata?: Part; spec: Part }
  const own = { "batch.kubernetes.io/controller-uid": uid, "controller-uid": uid }
  const named = { "batch.kubernetes.io/job-name": name, "job-name": name }
  return {
    parallelism: 1,
    completions: 1,
    completionMode: "NonIndexed",
    podReplacementPolicy: "TerminatingOrFailed",
    manualSelector: false,
    suspend: false,
    selector: { matchLabels: { "batch.kubernetes.io/controller-uid": uid } },
    ...spec,
    template: {
      metadata: { ...template.metadata, labels: { ...(template.metadata?.["labels"] as object), ...own, ...named } },
      spec: podSpec(template.spec),
    },
  }
}

const podSpec = (spec: Part): Part => ({
  dnsPolicy: "ClusterFirst",
  schedulerName: "default-scheduler",
  ...spec,
  containers: (spec["containers"] as Part[]).map((container) => ({
    terminationMessagePath: "/dev/termination-log",
    terminationMessagePolicy: "File",
    imagePullPolicy: "IfNotPresent",
    ...container,
  })),
})
