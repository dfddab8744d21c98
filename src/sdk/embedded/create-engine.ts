// The engine inside a user's program.

import { resolve } from "node:path"
import type { OrkParts } from "./ork-parts.ts"
import type { Definition } from "../definitions.ts"
import { ProgramExecutor, type ProgramExecutorOptions } from "../durable/program-executor.ts"
import { lanesOf, type WorkerCapabilities } from "../../core/routing/capabilities.ts"
import { REMOTE_WILDCARD } from "../../core/routing/lanes.ts"
import { UpstreamFiles } from "../../engine/attempts/upstream-files.ts"
import { Engine } from "../../engine/engine.ts"

/** Starts and watches the children of durable functions. */
type Children = Pick<ProgramExecutorOptions, "newChild" | "startChild" | "childEnd" | "cancelChild">

/** Time that running handlers get to end. */
export const GRACE_MS = 10_000
/** Folder of upstream files, in the folder of the process. */
export const dataFolder = (): string => resolve(".ork")
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024
const MAX_FANOUT = 100_000

/** Creates the engine of a program, which claims the work of its functions; with `executors` of the parts, also other work. */
export const createEngine = (parts: OrkParts, definitions: readonly Definition[], children: Children): Engine => {
  const { store, objects, evaluator, clock, random, log, name, process, concurrency, version } = parts
  const { executors: createExecutors, conditions, stallMs } = parts
  const functions = definitions.flatMap((definition) => (definition.kind === "graph" ? [] : [definition.functionName]))
  const capabilities: WorkerCapabilities = {
    queues: "all",
    labels: [],
    handlers: [],
    functions,
    functionsOnly: createExecutors === undefined,
    capacity: concurrency,
    version,
  }
  const programExecutor = new ProgramExecutor({
    definitions,
    store,
    objects,
    clock,
    random,
    ...children,
    wake: () => engine.wake(),
  })
  const executors = createExecutors?.(programExecutor) ?? [programExecutor]
  const dataDir = dataFolder()
  const upstreamFiles = new UpstreamFiles({ objects, dataDir, log })
  const engine = new Engine({
    store,
    objects,
    executors: new Map(executors.map((executor) => [executor.name, executor])),
    evaluator,
    clock,
    random,
    log,
    holder: { kind: parts.holder, name, process, capabilities },
    lanes: [...lanesOf(capabilities), ...(createExecutors === undefined ? [] : [REMOTE_WILDCARD])],
    concurrency,
    maxFanout: MAX_FANOUT,
    maxOutputBytes: MAX_OUTPUT_BYTES,
    graceMs: GRACE_MS,
    ...(stallMs !== undefined && { stallMs }),
    dataDir,
    folders: {
      // Functions run in this process, in its own folder.
      workingDir: () => ({ baseDir: globalThis.process.cwd(), workingDir: globalThis.process.cwd() }),
      code: async () => null,
      upstream: (claim, outputs) => upstreamFiles.write(claim, outputs),
      artifacts: (claim, sources) => upstreamFiles.writeArtifacts(claim, sources),
    },
    secret: async () => null,
    ...(conditions !== undefined && { conditions }),
    async findWorkflow(workflow) {
      const found = await store.getWorkflow(workflow)
      return found === null ? null : { workflowId: found.id, versionId: found.versionId }
    },
  })
  return engine
}
