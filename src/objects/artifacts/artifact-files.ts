// Writes the artifacts of an attempt into a folder, where a later task reads them.

import { mkdir, rename, stat } from "node:fs/promises"
import { dirname, join } from "node:path"
import { type Artifact, artifactPathProblem } from "../../core/model/artifacts.ts"

/**
 * Writes the files that the folder does not contain yet, each by `write` to a draft of its own: another process of this machine, under
 * another `owner`, may be writing the same file.
 */
export const writeArtifactFiles = async (
  folder: string,
  files: readonly Artifact[],
  owner: string,
  write: (file: Artifact, draft: string) => Promise<void>,
): Promise<void> => {
  await mkdir(folder, { recursive: true })
  for (const file of files) {
    const problem = artifactPathProblem(file.path)
    if (problem !== null) throw new Error(`the artifact ${JSON.stringify(file.path)} ${problem}`)
    const path = join(folder, file.path)
    if ((await stat(path).catch(() => null)) !== null) continue
    await mkdir(dirname(path), { recursive: true })
    const draft = join(folder, `.${owner}.part`)
    await write(file, draft)
    await rename(draft, path)
  }
}
