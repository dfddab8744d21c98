// The suite on a real cluster: `TEST_KUBECONFIG` names its kubeconfig, `TEST_KUBE_IMAGE` an image with a shell, `TEST_KUBE_NAMESPACE` where to run.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { test, vi } from "vitest"
import { FileObjectStore } from "../../objects/file.ts"
import { realClock } from "../conformance/fixture.ts"
import { KubernetesExecutor } from "./kubernetes.ts"
import { clusterTests, type ClusterFixture } from "./testing/suite.ts"

const {
  TEST_KUBECONFIG: kubeconfig = "",
  TEST_KUBE_IMAGE: image = "busybox:1.36",
  TEST_KUBE_NAMESPACE: namespace = "",
} = process.env

const tell = (...words: unknown[]): void =>
  void process.stderr.write(`${words.map((word) => JSON.stringify(word)).join(" ")}\n`)

const make = async (): Promise<ClusterFixture> => {
  const folder = mkdtempSync(join(tmpdir(), "ork-kubernetes-"))
  const objects = new FileObjectStore(join(folder, "objects"))
  const made: KubernetesExecutor[] = []
  const log = { warn: tell, info: tell }
  const newExecutor = (): KubernetesExecutor => {
    const store = `file:${join(folder, "objects")}`
    const clock = realClock
    const executor = new KubernetesExecutor({
      objects,
      store,
      clock,
      log,
      kubeconfig,
      namespace,
      ttlMs: 60_000,
      env: process.env,
    })
    made.push(executor)
    return executor
  }
  return {
    executor: newExecutor(),
    newExecutor,
    objects,
    folder,
    image,
    async cleanup() {
      for (const executor of made) await executor.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

if (kubeconfig === "") {
  tell("TEST_KUBECONFIG is not set: the kubernetes executor was tested on a fake cluster alone")
  test.skip("the suite on a real cluster (set TEST_KUBECONFIG)", () => {})
} else {
  vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 })
  clusterTests("a real cluster", make)
}
