// A RunReader over the API of a server.

import { findServerRun } from "./find-run.ts"
import { allItems, firstItems } from "./pages.ts"
import type { ArtifactRequest, LogRequest, RunReader } from "./reader.ts"
import { InputError } from "../terminal/errors.ts"
import { omitUndefined } from "../../core/values/omit-undefined.ts"
import { type ByteStream, type Client, ClientError, type TaskAddress } from "../../protocol/client/client.ts"

export const serverReader = (client: Client): RunReader => ({
  listRuns({ limit, createdAfter, createdBefore, ...filter }) {
    const query = omitUndefined({ ...filter, created_after: createdAfter, created_before: createdBefore })
    return firstItems((page) => client.listRuns({ ...query, ...page }), limit)
  },
  findRun: (text) => findServerRun(client, text),
  tasks: (run) => allItems((page) => client.listTasks(run.id, page)),
  pathOf: async (run, task, label) => (await client.getTask({ runId: run.id, task, label })).path,
  graph: (run) => client.runGraph(run.id),
  explain: (run, task) => client.explain(run.id, task),
  export: (run) => readBytes(client.exportRun(run.id)),
  logBytes: (request) =>
    readLog(client, request, (place, attempt) =>
      request.follow ? client.followLog({ ...place, ...attempt }) : readBytes(client.readLog(place, attempt)),
    ),
  logLines: (request) =>
    readLog(client, request, (place, attempt) =>
      request.follow ? client.followLogLines({ ...place, ...attempt }) : client.readLogLines(place, attempt),
    ),
  async artifacts({ attempt, ...request }) {
    return (await client.listArtifacts(addressOf(request), omitUndefined({ attempt })).catch(nameOptions)).items
  },
  artifactBytes: ({ attempt, ...request }, file) =>
    readBytes(client.readArtifact(addressOf(request), { file, ...omitUndefined({ attempt }) })),
})

const addressOf = ({ runId, task, path }: Omit<ArtifactRequest, "attempt">): TaskAddress => ({
  runId,
  task,
  ...(path !== "" && { path }),
})

/** Throws an InputError if the task has not run and is not followed. */
async function* readLog<Piece>(
  client: Client,
  { runId, task: name, path, attempt, follow }: LogRequest,
  read: (place: TaskAddress, attempt: { attempt?: number }) => AsyncGenerator<Piece>,
): AsyncGenerator<Piece> {
  const place: TaskAddress = omitUndefined({ runId, task: name, path })
  const task = await client.getTask(place).catch(nameOptions)
  if (!follow && task.attempt === 0) throw new InputError(notRunText(task))
  yield* read(place, omitUndefined({ attempt }))
}

/** Rethrows an error about the API's parameters as one about the options of the command. */
const nameOptions = (error: unknown): never => {
  if (error instanceof ClientError && error.details[0]?.path === "index") {
    throw new InputError(error.details[0].message.replace("index=N, or path=1.2 inside", "--index N, or --path 1.2 inside"))
  }
  throw error
}

/** Returns the message for the log of a task without attempts. */
export const notRunText = (task: { name: string; error: string | null; status: string }): string =>
  `task ${task.name} has not run${task.error === null ? "" : `: ${task.error}`}; it is ${task.status}`

export async function* readBytes(body: Promise<ByteStream>): AsyncGenerator<Uint8Array> {
  for await (const bytes of await body) yield bytes
}
