// Removes containers without a live attempt: those of dead Ork processes, which outlive the process that started them, and those that
// this process could not remove while the engine was away.

import { messageOf } from "../../core/values/error-message.ts"
import type { AttemptFolders } from "./attempt-folders.ts"
import { LABELS } from "./container.ts"
import { type DockerEngine, EngineError } from "./engine.ts"

interface ListedContainer {
  Id: string
  Labels: { [label: string]: string }
}

export interface SweepResult {
  /** Some owners may be alive or dead. */
  undecided: boolean
  /** Attempts whose containers could not be removed, with the error. */
  failures: Map<string, string>
}

/** Rejects only when the engine does not list its containers. */
export const sweep = async (
  engine: DockerEngine,
  folders: AttemptFolders,
  leftBehind: ReadonlySet<string>,
): Promise<SweepResult> => {
  const filters = JSON.stringify({ label: [LABELS.owner] })
  const containers = (await engine.call("GET", "/containers/json", { query: { all: "true", filters } })) as ListedContainer[]
  let undecided = false
  const failures = new Map<string, string>()
  for (const { Id, Labels } of containers) {
    const owner = Labels[LABELS.owner] ?? ""
    const attemptId = Labels[LABELS.attempt] ?? ""
    const isLeft = owner === folders.owner && leftBehind.has(attemptId)
    const dead = isLeft || folders.isDead(owner, Labels[LABELS.data] ?? "")
    if (dead === null) undecided = true
    if (dead !== true) continue
    await removeContainer(engine, Id).catch((error: unknown) => failures.set(attemptId, messageOf(error)))
  }
  if (failures.size === 0) folders.removeDead()
  return { undecided, failures }
}

/** Kills and removes a container. */
export const removeContainer = async (engine: DockerEngine, id: string): Promise<void> => {
  try {
    await engine.call("DELETE", `/containers/${id}`, { query: { force: "true", v: "true" } })
  } catch (error) {
    // 404: already removed. 409: another removal is in progress.
    if (!(error instanceof EngineError) || (error.status !== 404 && error.status !== 409)) throw error
  }
}
