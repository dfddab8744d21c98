// Where `ork run` finds the workflow of a task that is one: a definition of that name beside the one that it runs, else what is
// deployed in its store.

import { access } from "node:fs/promises"
import { join } from "node:path"
import { loadDefinition } from "../target/definition.ts"
import { TaskFailure } from "../../engine/attempts/task-failure.ts"
import type { EngineOptions } from "../../engine/ports.ts"
import type { WorkerProfiles } from "../../core/settings/worker-profiles.ts"
import type { ServerStore } from "../../store/contract/server-store.ts"

const ENDINGS = [".yaml", ".yml", ".json"]
/** As the names of workflows are: nothing in it leads to another folder. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/

export const childWorkflows =
  (store: ServerStore, profiles: WorkerProfiles): NonNullable<EngineOptions["findWorkflow"]> =>
  async (name, { workingDir }) => {
    const file = workingDir === null || !NAME.test(name) ? null : await besides(workingDir, name)
    if (file !== null) {
      const { workflow, hash, source } = await loadDefinition(workingDir!, file, profiles).catch((error: Error) => {
        throw new TaskFailure(error.message)
      })
      if (workflow.name !== name) throw new TaskFailure(`${file} holds the workflow ${workflow.name}, not ${name}`)
      return await store.putWorkflow({ compiled: workflow, hash, source, deploy: false })
    }
    const found = await store.getWorkflow(name)
    return found === null ? null : { workflowId: found.id, versionId: found.versionId }
  }

const besides = async (folder: string, name: string): Promise<string | null> => {
  for (const ending of ENDINGS) {
    const file = `${name}${ending}`
    const there = await access(join(folder, file)).then(
      () => true,
      () => false,
    )
    if (there) return file
  }
  return null
}
