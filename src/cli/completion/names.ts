// Names for completion, from the server of this folder or of ORK_URL, or from the store of this folder. A slow or unreachable server yields
// none, because the user is waiting for the shell.

import type { Context } from "../target/context.ts"
import { connect } from "../target/connect.ts"
import { type RunReader, withReader } from "../target/reader.ts"

export type NameKind = "workflow" | "run" | "queue" | "task"

const TIMEOUT_MS = 1500
const MAX_WORKFLOWS = 100
const MAX_RUNS = 20

export const serverNames =
  (context: Context) =>
  async (kind: NameKind, typed: readonly string[]): Promise<string[]> => {
    const always = kind === "run" ? ["latest"] : []
    const late = new Promise<string[]>((resolve) => setTimeout(resolve, TIMEOUT_MS, []).unref())
    const found = await Promise.race([namesOf(context, kind, typed).catch(() => []), late])
    return [...found, ...always]
  }

const namesOf = async (context: Context, kind: NameKind, typed: readonly string[]): Promise<string[]> => {
  switch (kind) {
    case "run":
      return withReader(context, {}, async (reader) =>
        (await reader.listRuns({ limit: MAX_RUNS })).flatMap(({ id, workflow, number }) => [id, `${workflow}#${number}`]),
      )
    case "task":
      return withReader(context, {}, (reader) => taskNames(reader, typed[0]))
    case "workflow":
      return (await connect(context, {}).then((client) => client.listWorkflows({ limit: MAX_WORKFLOWS }))).items.map(
        ({ name }) => name,
      )
    case "queue":
      return (await connect(context, {}).then((client) => client.listQueues())).map(({ name }) => name)
    default:
      return kind satisfies never
  }
}

const taskNames = async (reader: RunReader, run: string | undefined): Promise<string[]> =>
  run === undefined ? [] : (await reader.graph(await reader.findRun(run))).tasks.map(({ name }) => name)
