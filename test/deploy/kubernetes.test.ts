// Checks the Kubernetes objects against the types of the official client and the rules of a cluster.

import { execFileSync } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { V1PodSpec } from "@kubernetes/client-node"
import { describe, expect, it } from "vitest"
import { parseAllDocuments, parse } from "yaml"
import { SETTINGS } from "../../src/config.ts"
import { parseDuration } from "../../src/core/values/quantities.ts"
import { REPO } from "../support/ork.ts"
import { restrictedProblems } from "../../src/executors/kubernetes/testing/pod-security.ts"
import { typeProblems } from "../../src/executors/kubernetes/testing/types.ts"

const FOLDER = join(REPO, "deploy/kubernetes")
const TYPES: Record<string, string> = {
  "v1 ServiceAccount": "V1ServiceAccount",
  "v1 Service": "V1Service",
  "apps/v1 Deployment": "V1Deployment",
  "policy/v1 PodDisruptionBudget": "V1PodDisruptionBudget",
  "rbac.authorization.k8s.io/v1 Role": "V1Role",
  "rbac.authorization.k8s.io/v1 RoleBinding": "V1RoleBinding",
}

interface Container {
  args: string[]
  env: { name: string; value?: string; valueFrom?: { secretKeyRef: { name: string } } }[]
  envFrom?: { secretRef: { name: string } }[]
  securityContext: object
  volumeMounts: { name: string }[]
}

interface KubernetesObject {
  apiVersion: string
  kind: string
  metadata: { name: string }
  subjects?: { name: string }[]
  rules?: { resources: string[]; verbs: string[] }[]
  spec?: {
    selector: { matchLabels?: Record<string, string> } & Record<string, unknown>
    template?: {
      metadata: { labels: Record<string, string> }
      spec: {
        serviceAccountName: string
        enableServiceLinks?: boolean
        terminationGracePeriodSeconds: number
        securityContext: object
        containers: Container[]
        volumes: { name: string }[]
      }
    }
  }
}

const kustomizationText = readFileSync(join(FOLDER, "kustomization.yaml"), "utf8")
const kustomization = parse(kustomizationText) as { resources: string[] }
const objects = kustomization.resources.flatMap((file) =>
  parseAllDocuments(readFileSync(join(FOLDER, file), "utf8")).map((document) => {
    if (document.errors.length > 0) throw document.errors[0]!
    return document.toJS() as KubernetesObject
  }),
)
const deployments = objects.filter(({ kind }) => kind === "Deployment")

describe("the Kubernetes objects", () => {
  it.each(objects.map((object) => [`${object.kind} ${object.metadata.name}`, object] as const))(
    "%s has fields that there are",
    (_, object) => {
      const type = TYPES[`${object.apiVersion} ${object.kind}`]
      expect(type).toBeDefined()
      expect(typeProblems(object, type!, object.kind)).toEqual([])
    },
  )

  it("are validated by a check that finds mistakes", () => {
    const wrong = { spec: { replica: 2, template: { spec: { containers: [{ name: 1, ports: {} }] } } } }
    expect(typeProblems(wrong, "V1Deployment", "x")).toEqual([
      "x.spec.selector is required",
      "x.spec.replica is not a field of V1DeploymentSpec",
      "x.spec.template.spec.containers[0].name is not a string",
      "x.spec.template.spec.containers[0].ports is not a list",
    ])
  })

  it.each(deployments.map((one) => [one.metadata.name, one] as const))("%s is complete and hardened", (_, { spec }) => {
    const { metadata, spec: pod } = spec!.template!
    expect(metadata.labels).toMatchObject(spec!.selector.matchLabels!)
    expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } })
    const volumes = pod.volumes.map(({ name }) => name)
    for (const { args, securityContext, volumeMounts } of pod.containers) {
      expect(securityContext).toEqual({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      })
      expect(["serve", "worker"]).toContain(args[0])
      expect(volumeMounts.map(({ name }) => name).filter((name) => !volumes.includes(name))).toEqual([])
    }
    expect(objects.some((one) => one.kind === "ServiceAccount" && one.metadata.name === pod.serviceAccountName)).toBe(true)
  })

  it.each(deployments.map((one) => [one.metadata.name, one] as const))(
    '%s may run in a namespace that enforces "restricted"',
    (_, { spec }) => {
      expect(restrictedProblems(spec!.template!.spec as unknown as V1PodSpec)).toEqual([])
    },
  )

  it.each(deployments.map((one) => [one.metadata.name, one] as const))(
    "%s gets no variables for Services: those of the Service ork would be read as settings",
    (_, { spec }) => {
      expect(spec!.template!.spec.enableServiceLinks).toBe(false)
    },
  )

  it.each(deployments.map((one) => [one.metadata.name, one] as const))(
    "the secrets of %s are created by the steps of the kustomization",
    (_, { spec }) => {
      for (const { env, envFrom = [] } of spec!.template!.spec.containers) {
        const named = [
          ...envFrom.map(({ secretRef }) => secretRef.name),
          ...env.flatMap(({ valueFrom }) => valueFrom?.secretKeyRef.name ?? []),
        ]
        expect(named).not.toEqual([])
        for (const name of named) expect(kustomizationText).toMatch(new RegExp(`create secret generic ${name} `))
      }
    },
  )

  it.each(deployments.map((one) => [one.metadata.name, one] as const))(
    "%s ends within the grace period of its pod",
    (_, { spec }) => {
      const { terminationGracePeriodSeconds, containers } = spec!.template!.spec
      const value = containers[0]!.env.find(({ name }) => name === "ORK_GRACE")?.value
      const graceMs =
        value === undefined ? SETTINGS.graceMs.default({ machine: { cores: 1 }, dataDir: "" }) : parseDuration(value)!
      // Tasks get the grace period to finish and once more after SIGTERM; then results are delivered.
      expect((2 * graceMs + 20_000) / 1000).toBeLessThanOrEqual(terminationGracePeriodSeconds)
      if (containers[0]!.args[0] === "worker") expect(graceMs).toBeGreaterThan(60_000)
    },
  )

  it("give the servers the permissions of the kubernetes executor, without wildcards", () => {
    const role = objects.find(({ kind }) => kind === "Role")!
    expect(role.rules!.flatMap(({ resources, verbs }) => [...resources, ...verbs])).not.toContain("*")
    // src/executors/kubernetes/pods.test.ts compares it with the requests of the executor.
    expect(role.metadata.name).toBe("ork-jobs")
    const binding = objects.find(({ kind }) => kind === "RoleBinding")!
    expect(binding.subjects!.map(({ name }) => name)).toEqual(["ork"])
  })

  it.runIf(existsSync("/usr/bin/kubectl"))("are the output of kustomize for the folder", () => {
    const built = execFileSync("kubectl", ["kustomize", FOLDER], { encoding: "utf8" })
    const kinds = parseAllDocuments(built).map((document) => (document.toJS() as KubernetesObject).kind)
    expect(kinds.toSorted()).toEqual(objects.map(({ kind }) => kind).toSorted())
  })
})
