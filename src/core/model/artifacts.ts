// Artifacts: files that a task stores in the object store under their paths, relative to its working folder.

export interface Artifact {
  path: string
  bytes: number
}

/** The artifacts of one attempt, and the folder that a later task gets them in: `NAME`, or `NAME/3` for an instance of a fan-out. */
export interface ArtifactSource {
  folder: string
  /** Prefix of the objects of the attempt; empty for a folder that has no files of its own. */
  prefix: string
  files: readonly Artifact[]
}

/** Limits of what one attempt stores, besides `ORK_MAX_ARTIFACTS`. */
export const MAX_ARTIFACTS = 1000
const MAX_PATH_BYTES = 400

const CONTROL = /\p{Cc}/u

/** Returns why a pattern cannot name files of a task; null when it can. */
export const artifactPatternProblem = (pattern: string): string | null => {
  const isInside = pattern !== "" && !pattern.startsWith("/") && !pattern.split(/[\\/]/).includes("..")
  return isInside && !CONTROL.test(pattern)
    ? null
    : "must be a path or a pattern such as out/*.csv, inside the working folder of the task"
}

/** Returns why a path cannot be that of an artifact; null when it can. */
export const artifactPathProblem = (path: string): string | null => {
  if (path.split("/").some((part) => part === "" || part === "." || part === "..") || path.includes("\\"))
    return "is not a path inside the working folder of the task"
  if (CONTROL.test(path) || path.includes("\uFFFD")) return "contains characters that are no text"
  return Buffer.byteLength(path) > MAX_PATH_BYTES ? `has a path of more than ${MAX_PATH_BYTES} bytes` : null
}
