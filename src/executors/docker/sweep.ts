// Removes containers without a live attempt: those of dead Ork processes, which outlive the process that started them, and those that
// this process could not remove while the engine was away.

import type { AttemptFolders } from "./attempt-folders.ts"
import { LABELS } from "./container.ts"
import { type Engine, EngineError } from "./engine.ts"

interface ListedContainer {
  Id: string
  Labels: { [label: string]: string }
}

/** Resolves with true when some owners may be alive or dead, so that the sweep must be repeated later. */
export const sweep = async (engine: Engine, folders: AttemptFolders, leftBehind: ReadonlySet<string>): Promise<boolean> => {
  const filters = JSON.stringify({ label: [LABELS.owner] })
  const containers = (await engine.call("GET", "/containers/json", { query: { all: "true", filters } })) as ListedContainer[]
  let undecided = false
  for (const { Id, Labels } of containers) {
    const owner = Labels[LABELS.owner] ?? ""
    const isLeft = owner === folders.owner && leftBehind.has(Labels[LABELS.attempt] ?? "")
    const dead = isLeft || folders.isDead(owner, Labels[LABELS.data] ?? "")
    if (dead === null) undecided = true
    if (dead === true) await removeContainer(engine, Id)
  }
  folders.removeDead()
  return undecided
}

/** Kills and removes a container. */
export const removeContainer = async (engine: Engine, id: string): Promise<void> => {
  try {
    await engine.call("DELETE", `/containers/${id}`, { query: { force: "true", v: "true" } })
  } catch (error) {
    // 404: already removed. 409: another removal is in progress.
    if (!(error instanceof EngineError) || (error.status !== 404 && error.status !== 409)) throw error
  }
}
