// Removes containers whose Ork is dead. A container does not die with the process that started it, so the next one that starts in
// that data folder looks for them before it runs any of its own.

import type { AttemptFolders } from "./attempt-folders.ts"
import { LABELS } from "./container.ts"
import { type Engine, EngineError } from "./engine.ts"

interface Listed {
  Id: string
  Labels: { [label: string]: string }
}

/** True: some could not be told yet, so look again later. */
export const sweep = async (engine: Engine, folders: AttemptFolders): Promise<boolean> => {
  const filters = JSON.stringify({ label: [LABELS.owner] })
  const containers = (await engine.call("GET", "/containers/json", { query: { all: "true", filters } })) as Listed[]
  let unsure = false
  for (const { Id, Labels } of containers) {
    const dead = folders.isDead(Labels[LABELS.owner] ?? "", Labels[LABELS.data] ?? "")
    if (dead === null) unsure = true
    if (dead === true) await removeContainer(engine, Id)
  }
  folders.removeDead()
  return unsure
}

/** Kills it too. */
export const removeContainer = async (engine: Engine, id: string): Promise<void> => {
  try {
    await engine.call("DELETE", `/containers/${id}`, { query: { force: "true", v: "true" } })
  } catch (error) {
    // 404: gone. 409: somebody is removing it already.
    if (!(error instanceof EngineError) || (error.status !== 404 && error.status !== 409)) throw error
  }
}
