// Finds the artifacts that a task gets from upstream tasks: those of the latest successful attempt of each instance.

import { createHash } from "node:crypto"
import { TaskFailure } from "./task-failure.ts"
import type { EngineOptions } from "../ports.ts"
import type { ArtifactSource } from "../../core/model/artifacts.ts"
import { templateJson } from "../../core/model/definition-text.ts"
import { enclosingPath, shortName, taskDisplayName } from "../../core/model/task-path.ts"
import type { CompiledWorkflow, Node } from "../../core/model/workflow.ts"
import { artifactKey, readArtifactList } from "../../objects/artifacts/artifact-list.ts"
import { attemptPrefix, type ObjectStore } from "../../objects/objects.ts"
import { readOutputObject } from "../../objects/shared/read-object.ts"
import type { TaskClaim, TaskRow } from "../../store/contract/store.ts"
import { rowPages } from "../../store/contract/row-pages.ts"

type Options = Pick<EngineOptions, "store" | "objects">

const PAGE_SIZE = 1000
/** Number of files that one task gets. */
const MAX_FILES = 10_000

/** Returns the artifacts for a claim. Throws a `TaskFailure` when a successful task has stored none. */
export const findUpstreamArtifacts = async (
  { store, objects }: Options,
  claim: TaskClaim,
  workflow: CompiledWorkflow,
  node: Node,
): Promise<ArtifactSource[]> => {
  const sources: ArtifactSource[] = []
  let count = 0
  for (const index of node.artifactsFrom ?? []) {
    const source = workflow.nodes[index]!
    const around = enclosingPath(workflow, index, claim.path)
    sources.push({ folder: shortName(source), prefix: "", files: [] })
    for await (const row of rowsOf(store, claim, source, around)) {
      if (row.status !== "success") continue
      const prefix = row.attemptId === null ? null : attemptPrefix(claim.runId, source.name, row.attemptId)
      const files = prefix === null ? null : await readArtifactList(objects, prefix)
      if (prefix === null || files === null) throw new TaskFailure(missingArtifacts(source, row.path))
      count += files.length
      if (count > MAX_FILES) throw new TaskFailure(`the tasks of artifacts_from have more than ${MAX_FILES} artifacts together`)
      sources.push({ folder: folderOf(source, row.path), prefix, files })
    }
  }
  return sources
}

/** Yields the row of a task beside or around the claimed one, or the rows of all its instances. */
async function* rowsOf(store: Options["store"], { runId }: TaskClaim, source: Node, around: string): AsyncGenerator<TaskRow> {
  const { name } = source
  if (source.fan === undefined) {
    const row = await store.getTask({ runId, name, path: around })
    if (row !== null) yield row
    return
  }
  const below = around === "" ? "" : `${around}.`
  for await (const page of rowPages(PAGE_SIZE, (each) => store.listTasks({ runId, name, ...each }))) {
    for (const row of page) if (row.path.startsWith(below)) yield row
  }
}

/** Returns the folder of one instance: below that of its task, under its own index. */
const folderOf = (source: Node, path: string): string =>
  source.fan === undefined ? shortName(source) : `${shortName(source)}/${path.slice(path.lastIndexOf(".") + 1)}`

const missingArtifacts = ({ name, artifacts }: Node, path: string): string =>
  `task ${taskDisplayName(name, path)} has not stored its artifacts (${JSON.stringify(templateJson(artifacts!))}), although its status is success; retry it`

/** Returns the name of the folder of these artifacts. Prefixes contain the attempt: artifacts of other attempts have another folder. */
export const artifactsName = (sources: readonly ArtifactSource[]): string =>
  `a${createHash("sha256")
    .update(JSON.stringify(sources.map(({ folder, prefix }) => [folder, prefix])))
    .digest("hex")
    .slice(0, 31)}`

/** Yields the bytes of an artifact. Throws a `TaskFailure` if the object store has lost it. */
export const artifactBytes = (
  objects: Pick<ObjectStore, "getRange">,
  { folder, prefix }: Pick<ArtifactSource, "folder" | "prefix">,
  path: string,
): AsyncGenerator<Uint8Array> =>
  readOutputObject(
    objects,
    artifactKey(prefix, path),
    () => new TaskFailure(`the artifact ${path} of ${folder} is gone from the object store; retry the task that stored it`),
  )
