// The folders and volumes that a container mounts. With a policy, links are resolved first, because tasks can create them, and what is
// really mounted is checked.

import { lstat, realpath } from "node:fs/promises"
import { basename, dirname, join, resolve } from "node:path"
import type { DockerDefinition } from "../../core/model/definition.ts"
import { mountViolation } from "../../core/rules/access/policy.ts"
import type { Assignment } from "../executor.ts"

export const ATTEMPT_TARGET = "/ork"
export const UPSTREAM_TARGET = "/ork-upstream"
export const ARTIFACTS_TARGET = "/ork-artifacts"
const WORK_TARGET = "/work"

export interface Mount {
  Type: "bind" | "volume"
  Source: string
  Target: string
  ReadOnly: boolean
}

/** A mount that the administrator's policy forbids. */
export class ForbiddenMount extends Error {}

/** Returns the task's options, whose shape definition/executor-fields.ts has checked. */
export const optionsOf = (assignment: Assignment): DockerDefinition => (assignment.fields["docker"] ?? {}) as DockerDefinition

/** Returns where the working folder is mounted; false: it is not. */
export const workTarget = ({ work = WORK_TARGET }: DockerDefinition): string | false => work

/** Returns the mounts of an attempt. `folder`: its own folder on this machine. */
export const mountsOf = async (assignment: Assignment, folder: string): Promise<Mount[]> => {
  const { workingDir, upstreamDir, artifactsDir } = assignment
  const options = optionsOf(assignment)
  const work = workTarget(options)
  const ofTask = [
    ...(work === false ? [] : [bind(workingDir, work)]),
    ...(upstreamDir === null ? [] : [bind(upstreamDir, UPSTREAM_TARGET, true)]),
    ...(artifactsDir === undefined ? [] : [bind(artifactsDir, ARTIFACTS_TARGET, true)]),
    ...(options.mounts ?? []).map((text) => mountOf(text, workingDir)),
  ]
  return [bind(folder, ATTEMPT_TARGET), ...(await Promise.all(ofTask.map((mount) => checked(mount, assignment))))]
}

const bind = (source: string, target: string, readOnly = false): Mount => ({
  Type: "bind",
  Source: resolve(source),
  Target: target,
  ReadOnly: readOnly,
})

const mountOf = (text: string, workingDir: string): Mount => {
  const [source = "", target = "", mode] = text.split(":")
  const readOnly = mode === "ro"
  if (!source.includes("/") && source !== ".") return { Type: "volume", Source: source, Target: target, ReadOnly: readOnly }
  return bind(resolve(workingDir, source), target, readOnly)
}

/** Returns the mount with its real path. Throws a ForbiddenMount. */
const checked = async (mount: Mount, { policy, baseDir, upstreamDir, artifactsDir }: Assignment): Promise<Mount> => {
  if (mount.Type !== "bind" || policy === undefined) return mount
  const path = await realPath(mount.Source)
  const ofOrk = { [UPSTREAM_TARGET]: upstreamDir, [ARTIFACTS_TARGET]: artifactsDir }[mount.Target]
  const own = ofOrk ?? baseDir
  const mounts = await Promise.all(policy.mounts.map(realPath))
  const forbidden = mountViolation({ ...policy, mounts }, path, await folderPath(own))
  if (forbidden !== null) throw new ForbiddenMount(forbidden)
  return { ...mount, Source: path }
}

/** Resolves a folder of Ork except for its name: a task may have replaced the folder by a link. */
const folderPath = async (folder: string): Promise<string> => join(await realPath(dirname(resolve(folder))), basename(folder))

/** Resolves links. The end of a path that does not exist here stays as it is: it may exist on the machine of the engine. */
const realPath = async (path: string): Promise<string> => {
  try {
    return await realpath(path)
  } catch (error) {
    const isMissing = error instanceof Error && "code" in error && error.code === "ENOENT"
    if (!isMissing || dirname(path) === path) throw error
    if (await lstat(path).catch(() => null)) throw new ForbiddenMount(`${path} is a link to a path that does not exist`)
    return join(await realPath(dirname(path)), basename(path))
  }
}
