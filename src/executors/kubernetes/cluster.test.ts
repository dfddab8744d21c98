// The suite on a real cluster. `TEST_KUBECONFIG`: its kubeconfig, whose user may create namespaces. `TEST_KUBE_IMAGE`: an image
// with a shell and no entrypoint (default busybox:1.37). The tests run in a new namespace, which enforces the Pod Security
// Standard "restricted" and is deleted at the end, or in the existing one that `TEST_KUBE_NAMESPACE` names.

import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { test, vi } from "vitest"
import { FileObjectStore } from "../../objects/file/file.ts"
import { realClock } from "../conformance/fixture.ts"
import { Cluster } from "./cluster.ts"
import { KubernetesExecutor } from "./kubernetes.ts"
import { corePath, jobsPath, LABELS } from "./shapes.ts"
import { type Admin, clusterTests, type ClusterFixture, type ClusterObject } from "./testing/suite.ts"

const {
  TEST_KUBECONFIG: kubeconfig = "",
  TEST_KUBE_IMAGE: image = "busybox:1.37",
  TEST_KUBE_NAMESPACE: given = "",
} = process.env

const print = (...values: unknown[]): void =>
  void process.stderr.write(`${values.map((value) => JSON.stringify(value)).join(" ")}\n`)

const adminOf = (cluster: Cluster, namespace: string): Admin => {
  const pathOf = (kind: "jobs" | "pods" | "secrets"): string =>
    kind === "jobs" ? jobsPath(namespace) : corePath(namespace, kind)
  return {
    async list(kind, attemptId) {
      const query = { labelSelector: `${LABELS.attempt}=${attemptId}` }
      return (await cluster.call<{ items: ClusterObject[] }>("GET", pathOf(kind), { query })).items
    },
    async delete(kind, name) {
      await cluster.call("DELETE", `${pathOf(kind)}/${name}`, { query: { propagationPolicy: "Background" } })
    },
    async warnings(about) {
      const query = { fieldSelector: `involvedObject.name=${about}` }
      const { items } = await cluster.call<{ items: { message?: string }[] }>("GET", corePath(namespace, "events"), { query })
      return items.map(({ message = "" }) => message)
    },
  }
}

/** Creates a namespace, and waits for its service account. */
const createNamespace = async (cluster: Cluster, name: string): Promise<void> => {
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" }
  const body = { apiVersion: "v1", kind: "Namespace", metadata: { name, labels } }
  await cluster.call("POST", "/api/v1/namespaces", { body })
  const account = `/api/v1/namespaces/${name}/serviceaccounts/default`
  const exists = async (): Promise<boolean> =>
    await cluster.call("GET", account).then(
      () => true,
      () => false,
    )
  await vi.waitUntil(exists, { timeout: 60_000, interval: 250 })
}

const make = async (): Promise<ClusterFixture> => {
  const folder = mkdtempSync(join(tmpdir(), "ork-kubernetes-"))
  const objects = new FileObjectStore(join(folder, "objects"))
  const executors: KubernetesExecutor[] = []
  const namespace = given || `ork-test-${randomBytes(5).toString("hex")}`
  const access = { kubeconfig, namespace, env: process.env, clock: realClock }
  const cluster = new Cluster(access)
  if (given === "") await createNamespace(cluster, namespace)
  print(`the kubernetes executor is tested in the namespace ${namespace}`)
  const log = { warn: print, info: print }
  const newExecutor = (): KubernetesExecutor => {
    const store = `file:${join(folder, "objects")}`
    const executor = new KubernetesExecutor({
      ...access,
      objects,
      store,
      log,
      ttlMs: 120_000,
      folder: join(folder, "used"),
    })
    executors.push(executor)
    return executor
  }
  return {
    executor: newExecutor(),
    newExecutor,
    objects,
    folder,
    image,
    admin: adminOf(cluster, namespace),
    async cleanup() {
      for (const executor of executors) await executor.stop()
      if (given === "") await cluster.call("DELETE", `/api/v1/namespaces/${namespace}`).catch(print)
      cluster.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

if (kubeconfig === "") {
  test.skip("the suite on a real cluster (set TEST_KUBECONFIG)", () => {})
} else {
  // Includes the first pull of the image and delays of the node.
  vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })
  clusterTests("a real cluster", make, { restricted: given === "", memory: true, deadline: true })
}
