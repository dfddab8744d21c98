// The executor on a fake cluster, with a clock that is faster than the real one.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Clock } from "../../../core/model/ports.ts"
import { FileObjectStore } from "../../../objects/file/file.ts"
import { KubernetesExecutor, type KubernetesExecutorOptions } from "../kubernetes.ts"
import { LABELS } from "../shapes.ts"
import { NAMESPACE } from "./controllers.ts"
import { FakeCluster } from "./fake-cluster.ts"
import type { Admin, ClusterFixture } from "./suite.ts"

const SPEED = 20

export const fastClock: Clock = {
  now: () => Date.now() * SPEED,
  monotonic: () => Date.now() * SPEED,
  after: (ms, fn) => {
    const timer = setTimeout(fn, ms / SPEED)
    return () => clearTimeout(timer)
  },
}

export interface FakeFixture extends ClusterFixture {
  cluster: FakeCluster
  /** Messages that were logged. */
  logged: string[]
  newExecutor(options?: Partial<KubernetesExecutorOptions>): KubernetesExecutor
}

export const fakeFixture = async (): Promise<FakeFixture> => {
  const cluster = await new FakeCluster().start()
  const folder = mkdtempSync(join(tmpdir(), "ork-kubernetes-"))
  const objects = new FileObjectStore(join(folder, "objects"))
  const executors: KubernetesExecutor[] = []
  const logged: string[] = []
  const log = {
    warn: (_: object, text: string) => void logged.push(text),
    info: (_: object, text: string) => void logged.push(text),
  }
  const newExecutor: FakeFixture["newExecutor"] = (options = {}) => {
    const { kubeconfig } = cluster
    const store = `file:${join(folder, "objects")}`
    const used = join(folder, "kubernetes")
    const basic = { objects, store, clock: fastClock, log, kubeconfig, namespace: "", ttlMs: 600_000, env: {}, folder: used }
    const executor = new KubernetesExecutor({ ...basic, ...options })
    executors.push(executor)
    return executor
  }
  return {
    cluster,
    executor: newExecutor(),
    newExecutor,
    objects,
    folder,
    logged,
    image: "busybox:1.37",
    admin: adminOf(cluster),
    async cleanup() {
      for (const executor of executors) await executor.stop()
      await cluster.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const adminOf = ({ storage, controllers }: FakeCluster): Admin => ({
  list: async (kind, attemptId) =>
    storage.list(kind, NAMESPACE).filter(({ metadata }) => metadata.labels?.[LABELS.attempt] === attemptId),
  delete: async (kind, name) => controllers.delete(kind, name),
  warnings: async (about) =>
    storage.list("events", NAMESPACE).flatMap((event) => (event.involvedObject?.name === about ? [event.message ?? ""] : [])),
})
