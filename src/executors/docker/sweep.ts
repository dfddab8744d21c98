// Removes containers of dead Ork processes. A container outlives the process that started it, so a process that starts in the
// same data folder removes them first.

import type { AttemptFolders } from "./attempt-folders.ts"
import { LABELS } from "./container.ts"
import { type Engine, EngineError } from "./engine.ts"

interface ListedContainer {
  Id: string
  Labels: { [label: string]: string }
}

/** Resolves with true when some owners may be alive or dead, so that the sweep must be repeated later. */
export const sweep = async (engine: Engine, folders: AttemptFolders): Promise<boolean> => {
  const filters = JSON.stringify({ label: [LABELS.owner] })
  const containers = (await engine.call("GET", "/containers/json", { query: { all: "true", filters } })) as ListedContainer[]
  let undecided = false
  for (const { Id, Labels } of containers) {
    const dead = folders.isDead(Labels[LABELS.owner] ?? "", Labels[LABELS.data] ?? "")
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
