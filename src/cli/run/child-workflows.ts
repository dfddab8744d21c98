// Finds the workflow that a task of `ork run` starts: a definition of that name beside the running one, otherwise the workflow
// deployed in its store.

import { access } from "node:fs/promises"
import { join } from "node:path"
import { loadDefinition } from "../target/definition.ts"
import { NAME } from "../../core/model/names.ts"
import { TaskFailure } from "../../engine/attempts/task-failure.ts"
import type { EngineOptions } from "../../engine/ports.ts"
import type { WorkerProfiles } from "../../core/settings/worker-profiles.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"

const EXTENSIONS = [".yaml", ".yml", ".json"]

export const childWorkflows =
  (store: ServerStore, profiles: WorkerProfiles): NonNullable<EngineOptions["findWorkflow"]> =>
  async (name, { workingDir }) => {
    const file = workingDir === null || !NAME.test(name) ? null : await findBeside(workingDir, name)
    if (file !== null) {
      const { workflow, hash, source } = await loadDefinition(workingDir!, file, profiles).catch((error: Error) => {
        throw new TaskFailure(error.message)
      })
      if (workflow.name !== name) throw new TaskFailure(`${file} defines the workflow ${workflow.name}, not ${name}`)
      return await store.putWorkflow({ compiled: workflow, hash, source, deploy: false })
    }
    const found = await store.getWorkflow(name)
    return found === null ? null : { workflowId: found.id, versionId: found.versionId }
  }

/** Returns the name of the definition file, or null if there is none. */
const findBeside = async (folder: string, name: string): Promise<string | null> => {
  for (const extension of EXTENSIONS) {
    const file = `${name}${extension}`
    const exists = await access(join(folder, file)).then(
      () => true,
      () => false,
    )
    if (exists) return file
  }
  return null
}
