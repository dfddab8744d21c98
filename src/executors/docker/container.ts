// Builds the body of the create request for one attempt. Pure.

import type { DockerDefinition } from "../../core/model/definition.ts"
import { functionArgv } from "../../core/model/function.ts"
import { MEMORY_HINT, parseMemory } from "../../core/values/quantities.ts"
import { type Environment, orkVariables } from "../environment.ts"
import { interpreterOf, type Assignment } from "../executor.ts"
import { ARTIFACTS_TARGET, ATTEMPT_TARGET, type Mount, optionsOf, UPSTREAM_TARGET, workTarget } from "./mounts.ts"

const DEFAULT_PIDS = 4096
/**
 * Makes the engine keep the whole log: after a broken connection, the bytes that were read are skipped from its start. The
 * engine's own settings (`log-opts`) may truncate logs, so they are overridden by a size that no log reaches; engines reject 0
 * and -1.
 */
const UNLIMITED_LOG = { Type: "json-file", Config: { "max-size": "1000t" } } as const

export const LABELS = {
  owner: "ork.owner",
  data: "ork.data",
  attempt: "ork.attempt",
  run: "ork.run",
  task: "ork.task",
  workflow: "ork.workflow",
} as const

export const INPUT_FILE = "input.json"
export const OUTPUT_FILE = "output.json"

export interface Owner {
  /** The process that started the container. */
  owner: string
  /** Id of the data folder in which that process shows that it is alive. */
  data: string
}

export const containerName = (attemptId: string): string => `ork-${attemptId}`

export const containerEnvironment = (assignment: Assignment): Environment => ({
  ...assignment.env,
  ...orkVariables(assignment, {
    inputPath: `${ATTEMPT_TARGET}/${INPUT_FILE}`,
    outputPath: `${ATTEMPT_TARGET}/${OUTPUT_FILE}`,
    upstreamDir: assignment.upstreamDir === null ? null : UPSTREAM_TARGET,
    artifactsDir: assignment.artifactsDir === undefined ? undefined : ARTIFACTS_TARGET,
  }),
})

export const createRequest = (assignment: Assignment, mounts: Mount[], owner: Owner) => {
  const options = optionsOf(assignment)
  const { node } = assignment
  const work = workTarget(options)
  const workdir = options.workdir ?? (work === false ? undefined : work)
  return {
    Image: node.image,
    ...commandOf(assignment, options.entrypoint),
    Env: Object.entries(containerEnvironment(assignment)).map(([name, value]) => `${name}=${value}`),
    ...(workdir !== undefined && { WorkingDir: workdir }),
    ...(options.user !== undefined && { User: options.user }),
    Labels: labelsOf(assignment, owner),
    OpenStdin: true,
    StdinOnce: true,
    Tty: false,
    HostConfig: {
      Mounts: mounts,
      ...(options.tmpfs !== undefined && { Tmpfs: Object.fromEntries(options.tmpfs.map((path) => [path, ""])) }),
      ...limitsOf(assignment, options),
      ...rightsOf(options),
      ...(options.network !== undefined && { NetworkMode: options.network }),
      ...(options.hosts !== undefined && {
        ExtraHosts: Object.entries(options.hosts).map(([name, address]) => `${name}:${address}`),
      }),
      ReadonlyRootfs: options.read_only ?? false,
      Init: true,
      LogConfig: UNLIMITED_LOG,
    },
  }
}

/** Runs a script in a shell; passes an argument list to the image's entrypoint, as `docker run` does. `ork exec` calls a function. */
const commandOf = ({ command, node }: Assignment, entrypoint: string[] | undefined) => {
  if (node.file !== undefined) {
    const [program, ...args] = functionArgv(node.file, node.function)
    return { Entrypoint: entrypoint ?? [program!], Cmd: args }
  }
  if (command === null) return entrypoint === undefined ? {} : { Entrypoint: entrypoint }
  if ("shell" in command) return { Entrypoint: entrypoint ?? interpreterOf(command), Cmd: [command.shell] }
  return { ...(entrypoint !== undefined && { Entrypoint: entrypoint }), Cmd: command.argv }
}

const labelsOf = (assignment: Assignment, { owner, data }: Owner): { [label: string]: string } => ({
  [LABELS.owner]: owner,
  [LABELS.data]: data,
  [LABELS.attempt]: assignment.attemptId,
  [LABELS.run]: assignment.runId,
  [LABELS.task]: assignment.task,
  [LABELS.workflow]: assignment.workflow,
})

const limitsOf = ({ node: { resources } }: Assignment, { pids, shm_size, gpus }: DockerDefinition) => {
  const shm = shm_size === undefined ? null : parseMemory(shm_size)
  if (shm_size !== undefined && shm === null) throw new Error(`docker.shm_size: ${shm_size} is not ${MEMORY_HINT}`)
  return {
    ...(resources?.cpu !== undefined && { NanoCpus: Math.round(resources.cpu * 1e9) }),
    // Disables swap, which would extend the limit.
    ...(resources?.memoryBytes !== undefined && { Memory: resources.memoryBytes, MemorySwap: resources.memoryBytes }),
    PidsLimit: pids ?? DEFAULT_PIDS,
    ...(shm !== null && { ShmSize: shm }),
    ...(gpus !== undefined && { DeviceRequests: [{ Count: gpus === "all" ? -1 : gpus, Capabilities: [["gpu"]] }] }),
  }
}

const rightsOf = ({ privileged = false, cap_add = [] }: DockerDefinition) =>
  privileged
    ? { Privileged: true }
    : { Privileged: false, CapDrop: ["ALL"], CapAdd: cap_add, SecurityOpt: ["no-new-privileges"] }
