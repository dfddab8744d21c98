// Finds and opens the files that the patterns of a task match in its working folder. The task controls the folder: links are rejected, so
// that no file outside of it is ever stored.

import { lstat, realpath } from "node:fs/promises"
import { join } from "node:path"
import { artifactPathProblem, artifactPatternProblem, MAX_ARTIFACTS } from "../../core/model/artifacts.ts"
import { messageOf } from "../../core/values/error-message.ts"
import { globFiles, InvalidGlob } from "../matches/glob-files.ts"
import { isInside } from "../shared/file-inside.ts"
import { type OpenedFile, openedPath, openRegularFile } from "../shared/regular-file.ts"

/** The working folder does not contain what the definition of the task says. */
export class ArtifactError extends Error {}

/** The data folder of `ork run`, which lies in the folder that its tasks run in. */
const DATA_FOLDER = ".ork"

/**
 * Returns the real path of the working folder. Throws an `ArtifactError` when it is outside of the folder of the run: Ork may read files
 * that the task must not, such as its own.
 */
export const artifactFolder = async ({ baseDir, workingDir }: { baseDir: string; workingDir: string }): Promise<string> => {
  const base = await realpath(baseDir)
  const folder = await realpath(workingDir).catch((error: unknown) => {
    throw new ArtifactError(`its working folder ${workingDir} cannot be read: ${messageOf(error)}`)
  })
  if (isInside(folder, base)) return folder
  throw new ArtifactError(
    `its working folder ${workingDir} is outside of the folder of the run; remove working_dir, and let the command copy the files into the folder that it starts in`,
  )
}

/** Returns the paths of all matching files, in order. Throws an `ArtifactError` when a pattern matches none. */
export const findArtifacts = async (folder: string, patterns: readonly string[]): Promise<string[]> => {
  const found = new Set<string>()
  for (const pattern of patterns) {
    const problem = artifactPatternProblem(pattern)
    if (problem !== null) throw new ArtifactError(`the pattern ${JSON.stringify(pattern)} ${problem}`)
    const { files, isFolder } = await matchesOf(folder, pattern)
    if (files.length === 0) {
      const hint = isFolder ? `; for the files of a folder, write ${JSON.stringify(`${pattern.replace(/\/$/, "")}/**`)}` : ""
      throw new ArtifactError(`no file in its working folder matches ${JSON.stringify(pattern)}${hint}`)
    }
    for (const file of files) found.add(file)
    checkCount(found.size)
  }
  return [...found].toSorted()
}

/** Finds the matches of a pattern. `isFolder`: it matches a folder. */
const matchesOf = async (folder: string, pattern: string): Promise<{ files: string[]; isFolder: boolean }> => {
  const files: string[] = []
  let isFolder = false
  try {
    for await (const match of globFiles(folder, pattern, (name) => name === DATA_FOLDER)) {
      const entry = await lstat(join(folder, match)).catch(() => null)
      if (entry?.isDirectory() === true) isFolder = true
      else if (entry !== null) files.push(checkedPath(match))
      checkCount(files.length)
    }
  } catch (error) {
    if (!(error instanceof InvalidGlob)) throw error
    throw new ArtifactError(`the pattern ${JSON.stringify(pattern)}: ${error.message}`)
  }
  return { files, isFolder }
}

const checkCount = (count: number): void => {
  if (count > MAX_ARTIFACTS) throw new ArtifactError(`its patterns match more than ${MAX_ARTIFACTS} files`)
}

const checkedPath = (path: string): string => {
  const problem = artifactPathProblem(path)
  if (problem !== null) throw new ArtifactError(`the file ${JSON.stringify(path)} ${problem}`)
  return path
}

/**
 * Opens a file of the folder, which is a real path. Throws an `ArtifactError` when it is not a regular file, or when a link leads to
 * it.
 */
export const openArtifact = async (folder: string, path: string): Promise<OpenedFile> => {
  const expected = join(folder, path)
  let opened: OpenedFile | null
  try {
    opened = await openRegularFile(expected)
  } catch (error) {
    const isLink = (await lstat(expected).catch(() => null))?.isSymbolicLink() === true
    throw new ArtifactError(
      `the file ${JSON.stringify(path)} ${isLink ? "is a symbolic link" : `cannot be read: ${messageOf(error)}`}`,
    )
  }
  if (opened === null) throw new ArtifactError(`the file ${JSON.stringify(path)} was removed while it was being stored`)
  if ((await openedPath(opened, expected)) === expected) return opened
  await opened.file.close()
  throw new ArtifactError(`a symbolic link leads to the file ${JSON.stringify(path)}`)
}
