// Stores the artifacts of a successful attempt, byte for byte: unlike logs and outputs they are not masked, because that would damage them.

import type { FileHandle } from "node:fs/promises"
import { ArtifactError, artifactFolder, findArtifacts, openArtifact } from "./find-artifacts.ts"
import type { Artifact } from "../../core/model/artifacts.ts"
import { formatBytes } from "../../core/values/quantities.ts"
import { artifactKey, writeArtifactList } from "./artifact-list.ts"
import type { ObjectStore } from "../objects.ts"
import { fileBytes } from "../shared/regular-file.ts"

/** A successful attempt whose artifacts are stored. */
export interface ArtifactOwner {
  task: string
  /** Folder that the working folder has to be in. */
  baseDir: string
  workingDir: string
  /** Prefix of the objects of the attempt. */
  prefix: string
  artifacts?: { patterns: string[]; maxBytes: number }
}

/** Returns why the artifacts cannot be stored; null when they are. Does nothing for a task without artifacts. */
export const storeArtifacts = async (objects: ObjectStore, owner: ArtifactOwner): Promise<string | null> => {
  const { artifacts, prefix, task } = owner
  if (artifacts === undefined) return null
  try {
    const files: Artifact[] = []
    let left = artifacts.maxBytes
    const folder = await artifactFolder(owner)
    for (const path of await findArtifacts(folder, artifacts.patterns)) {
      const bytes = await storeFile(objects, { folder, prefix }, path, left)
      if (bytes > left) throw tooLarge(artifacts.maxBytes)
      left -= bytes
      files.push({ path, bytes })
    }
    await writeArtifactList(objects, prefix, files)
    return null
  } catch (error) {
    if (!(error instanceof ArtifactError)) throw error
    return `the artifacts of ${task} cannot be stored: ${error.message}`
  }
}

const storeFile = async (
  objects: ObjectStore,
  { folder, prefix }: { folder: string; prefix: string },
  path: string,
  left: number,
): Promise<number> => {
  const { file, size } = await openArtifact(folder, path)
  try {
    return size > left ? size : (await objects.putStream(artifactKey(prefix, path), growing(file, left))).bytes
  } finally {
    await file.close()
  }
}

/** Yields the bytes of a file that another task of the run may be writing: at most one piece more than `max` bytes. */
async function* growing(file: FileHandle, max: number): AsyncGenerator<Uint8Array> {
  let sent = 0
  for await (const bytes of fileBytes(file)) {
    yield bytes
    sent += bytes.byteLength
    if (sent > max) return
  }
}

const tooLarge = (maxBytes: number): ArtifactError =>
  new ArtifactError(`together they are larger than the limit of ${formatBytes(maxBytes)} (ORK_MAX_ARTIFACTS)`)
