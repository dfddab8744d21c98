// The suite on a real cluster: `TEST_KUBECONFIG` names its kubeconfig, whose user may make namespaces. `TEST_KUBE_IMAGE` is an image with a shell
// and no entrypoint (default busybox:1.37). Everything happens in a namespace of its own, which enforces the Pod Security Standard
// "restricted" and is removed at the end; `TEST_KUBE_NAMESPACE` names one that is there in its place.

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
import { type Admin, clusterTests, type ClusterFixture, type Shown } from "./testing/suite.ts"

const {
  TEST_KUBECONFIG: kubeconfig = "",
  TEST_KUBE_IMAGE: image = "busybox:1.37",
  TEST_KUBE_NAMESPACE: given = "",
} = process.env

const tell = (...words: unknown[]): void =>
  void process.stderr.write(`${words.map((word) => JSON.stringify(word)).join(" ")}\n`)

const adminOf = (cluster: Cluster, namespace: string): Admin => {
  const pathOf = (kind: "jobs" | "pods" | "secrets"): string =>
    kind === "jobs" ? jobsPath(namespace) : corePath(namespace, kind)
  return {
    async list(kind, attemptId) {
      const query = { labelSelector: `${LABELS.attempt}=${attemptId}` }
      return (await cluster.call<{ items: Shown[] }>("GET", pathOf(kind), { query })).items
    },
    async delete(kind, name) {
      await cluster.call("DELETE", `${pathOf(kind)}/${name}`, { query: { propagationPolicy: "Background" } })
    },
    async complaints(about) {
      const query = { fieldSelector: `involvedObject.name=${about}` }
      const { items } = await cluster.call<{ items: { message?: string }[] }>("GET", corePath(namespace, "events"), { query })
      return items.map(({ message = "" }) => message)
    },
  }
}

/** Usable when its service account is there. */
const makeNamespace = async (cluster: Cluster, name: string): Promise<void> => {
  const labels = { "pod-security.kubernetes.io/enforce": "restricted" }
  const body = { apiVersion: "v1", kind: "Namespace", metadata: { name, labels } }
  await cluster.call("POST", "/api/v1/namespaces", { body })
  const account = `/api/v1/namespaces/${name}/serviceaccounts/default`
  const there = async (): Promise<boolean> =>
    await cluster.call("GET", account).then(
      () => true,
      () => false,
    )
  await vi.waitUntil(there, { timeout: 60_000, interval: 250 })
}

const make = async (): Promise<ClusterFixture> => {
  const folder = mkdtempSync(join(tmpdir(), "ork-kubernetes-"))
  const objects = new FileObjectStore(join(folder, "objects"))
  const made: KubernetesExecutor[] = []
  const namespace = given || `ork-test-${randomBytes(5).toString("hex")}`
  const access = { kubeconfig, namespace, env: process.env }
  const cluster = new Cluster(access)
  if (given === "") await makeNamespace(cluster, namespace)
  tell(`the kubernetes executor is tested in the namespace ${namespace}`)
  const log = { warn: tell, info: tell }
  const newExecutor = (): KubernetesExecutor => {
    const store = `file:${join(folder, "objects")}`
    const executor = new KubernetesExecutor({ ...access, objects, store, clock: realClock, log, ttlMs: 120_000 })
    made.push(executor)
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
      for (const executor of made) await executor.stop()
      if (given === "") await cluster.call("DELETE", `/api/v1/namespaces/${namespace}`).catch(tell)
      cluster.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

if (kubeconfig === "") {
  test.skip("the suite on a real cluster (set TEST_KUBECONFIG)", () => {})
} else {
  // A first pull of the image, and a node that is slow to tell, are in it.
  vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })
  clusterTests("a real cluster", make, { restricted: given === "", memory: true, deadline: true })
}
