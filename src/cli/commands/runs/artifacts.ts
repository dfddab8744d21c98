// `ork artifacts RUN [TASK]`: lists the files that the tasks of a run have stored, writes them into a folder, or prints one of them.

import { mkdir, writeFile } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import type { Context } from "../../target/context.ts"
import { type ArtifactRequest, type ReaderFlags, type RunReader, withReader } from "../../target/reader.ts"
import { InputError } from "../../terminal/errors.ts"
import { EscapeFilter } from "../../terminal/escape-filter.ts"
import { printListing } from "../../terminal/listing.ts"
import { parseTask, parseWholeNumber } from "../../terminal/option-values.ts"
import { print } from "../../terminal/output.ts"
import { artifactPathProblem } from "../../../core/model/artifacts.ts"
import { omitUndefined } from "../../../core/values/omit-undefined.ts"
import { taskDisplayName } from "../../../core/model/task-path.ts"
import { formatBytes } from "../../../core/values/quantities.ts"
import { isInside } from "../../../objects/shared/file-inside.ts"
import type { Run } from "../../../protocol/client/client.ts"

export interface ArtifactsOptions extends ReaderFlags {
  index?: string
  path?: string
  attempt?: string
  output?: string
  print?: string
}

/** An artifact, with the path of the instance that stored it. */
interface StoredFile {
  task: string
  path: string
  file: string
  bytes: number
}

export const artifacts = (
  context: Context,
  runText: string,
  name: string | undefined,
  options: ArtifactsOptions,
): Promise<number> => {
  const attempt = parseWholeNumber("--attempt", options.attempt, 1)
  if (name === undefined && (options.index ?? options.path ?? options.attempt ?? options.print) !== undefined) {
    throw new InputError("--index, --path, --attempt and --print select artifacts of a task; name it after the run")
  }
  return withReader(context, options, async (reader) => {
    const run = await reader.findRun(runText)
    const found = name === undefined ? await ofRun(reader, run) : await ofTask(reader, run, name, { ...options, attempt })
    if (options.print !== undefined) return printFile(context, reader, run, found, { file: options.print, attempt })
    if (options.output !== undefined) return download(context, reader, run, found, { folder: options.output, attempt })
    return printListing(context, options, {
      items: found,
      none: "no artifacts",
      header: ["TASK", "FILE", "SIZE"],
      row: ({ task, path, file, bytes }) => [taskDisplayName(task, path), file, formatBytes(bytes)],
    })
  })
}

const ofRun = async (reader: RunReader, run: Run): Promise<StoredFile[]> => {
  const found: StoredFile[] = []
  for await (const { name: task, path, status } of reader.tasks(run)) {
    if (status === "success") found.push(...(await filesOf(reader, { runId: run.id, task, path })))
  }
  return found
}

const ofTask = async (
  reader: RunReader,
  run: Run,
  name: string,
  { index, path: given, attempt }: { index?: string; path?: string; attempt?: number | undefined },
): Promise<StoredFile[]> => {
  const {
    task,
    label,
    path = label === undefined ? "" : await reader.pathOf(run, task, label),
  } = parseTask(name, omitUndefined({ index, path: given }))
  return filesOf(reader, omitUndefined({ runId: run.id, task, path, attempt }))
}

const filesOf = async (reader: RunReader, request: ArtifactRequest): Promise<StoredFile[]> =>
  (await reader.artifacts(request)).map(({ path, bytes }) => ({ task: request.task, path: request.path, file: path, bytes }))

type Attempt = { attempt: number | undefined }

const contentOf = (reader: RunReader, run: Run, { task, path, file }: StoredFile, { attempt }: Attempt) =>
  reader.artifactBytes(omitUndefined({ runId: run.id, task, path, attempt }), file)

const printFile = async (
  context: Context,
  reader: RunReader,
  run: Run,
  found: readonly StoredFile[],
  { file, attempt }: Attempt & { file: string },
): Promise<number> => {
  const stored = found.find((each) => each.file === file)
  if (stored === undefined)
    throw new InputError(`the task has no artifact ${file}; \`ork artifacts\` without --print lists them`)
  const filter = context.stdout.isTTY ? new EscapeFilter() : null
  for await (const bytes of contentOf(reader, run, stored, { attempt })) context.stdout.write(filter?.add(bytes) ?? bytes)
  return 0
}

/** Writes each file to FOLDER/TASK/FILE, of an instance to FOLDER/TASK/1.2/FILE. */
const download = async (
  context: Context,
  reader: RunReader,
  run: Run,
  found: readonly StoredFile[],
  { folder, attempt }: Attempt & { folder: string },
): Promise<number> => {
  for (const stored of found) {
    const problem = artifactPathProblem(stored.file)
    if (problem !== null) throw new InputError(`the artifact ${JSON.stringify(stored.file)} ${problem}`)
    const place = join(folder, stored.task, stored.path, stored.file)
    const target = resolve(context.cwd, place)
    // The server decides how its tasks are called.
    if (!isInside(target, resolve(context.cwd, folder))) throw new InputError(`${place} is outside of ${folder}`)
    await mkdir(dirname(target), { recursive: true })
    await writeFile(target, contentOf(reader, run, stored, { attempt }))
    print(context, `wrote ${place}`)
  }
  if (found.length === 0) print(context, "no artifacts")
  return 0
}
