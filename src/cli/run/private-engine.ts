// An engine for one private run, which no server shares.

import { resolve } from "node:path"
import type { Context } from "../target/context.ts"
import type { OpenStores } from "../target/stores.ts"
import { Engine } from "../../engine/engine.ts"
import type { EngineOptions } from "../../engine/ports.ts"
import type { RunId } from "../../core/model/ids.ts"

export interface PrivateEngineOptions extends Pick<
  EngineOptions,
  "concurrency" | "adaptiveConcurrency" | "log" | "findWorkflow"
> {
  /** Name of the lease holder. */
  name: string
  privateRun: RunId
  /** Changes the executors of the composition root. */
  executors(own: EngineOptions["executors"]): Promise<EngineOptions["executors"]>
}

export const privateEngine = async (
  { backends, cwd }: Context,
  { config, store, objects }: OpenStores,
  { name, privateRun, executors, ...own }: PrivateEngineOptions,
): Promise<Engine> => {
  const parts = await backends.engineParts(config, objects, { folder: resolve(cwd, config.dataDir), service: false })
  return new Engine({
    ...parts,
    ...own,
    executors: await executors(parts.executors),
    store,
    objects,
    clock: backends.clock,
    random: backends.random,
    holder: { kind: "run", name, process: backends.processIdentity() },
    lanes: { privateRun },
    maxFanout: config.maxFanout,
    maxOutputBytes: config.maxOutputBytes,
    maxArtifactBytes: config.maxArtifactBytes,
    maxLogBytes: config.maxLogBytes,
    graceMs: config.graceMs,
    leaseMs: config.serverLeaseMs,
    ...(config.policy !== null && { policy: config.policy }),
    dataDir: resolve(cwd, config.dataDir),
  })
}
