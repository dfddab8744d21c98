// The artifacts of an attempt in the object store: one object per file below `artifacts/`, and a list that is written after all files.
// Every key contains the attempt, so that a retry never mixes with what an earlier attempt stored.

import type { Artifact } from "../../core/model/artifacts.ts"
import type { ObjectStore } from "../objects.ts"

export const artifactKey = (prefix: string, path: string): string => `${prefix}artifacts/${path}`

const listKey = (prefix: string): string => `${prefix}artifacts.json`

interface ArtifactList {
  version: 1
  files: readonly Artifact[]
}

export const writeArtifactList = async (
  objects: Pick<ObjectStore, "put">,
  prefix: string,
  files: readonly Artifact[],
): Promise<void> => {
  const list: ArtifactList = { version: 1, files }
  await objects.put(listKey(prefix), JSON.stringify(list))
}

/** Returns null when the attempt has stored no artifacts. */
export const readArtifactList = async (
  objects: Pick<ObjectStore, "get">,
  prefix: string,
): Promise<readonly Artifact[] | null> => {
  const bytes = await objects.get(listKey(prefix))
  return bytes === null ? null : (JSON.parse(Buffer.from(bytes).toString("utf8")) as ArtifactList).files
}
