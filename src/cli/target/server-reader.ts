// A reader over the API of a server.

import { InputError } from "../terminal/errors.ts"
import type { LogRequest, Reader } from "./reader.ts"
import { parseRunId } from "../../core/model/ids.ts"
import {
  type ByteStream,
  type Client,
  ClientError,
  everyItem,
  type Run,
  take,
  type TaskPlace,
} from "../../protocol/client/client.ts"

const PAGE = 100

/** By an id, the beginning of one, or `latest`. */
export const findServerRun = async (client: Client, text: string): Promise<Run> => {
  const id = parseRunId(text)
  if (id !== null) return client.getRun(id)
  if (text === "latest") {
    const [newest] = (await client.listRuns({ limit: 1 })).items
    if (newest === undefined) throw new InputError("there is no run yet; start one with `ork trigger NAME`")
    return newest
  }
  const found: Run[] = []
  if (/^[0-9a-f-]+$/.test(text)) {
    for await (const run of everyRun(client)) {
      if (run.id.startsWith(text)) found.push(run)
      if (found.length > 1) throw new InputError(`more than one run begins with ${text}; give more of its id`)
    }
  }
  if (found[0] === undefined) throw new InputError(`there is no run ${text}; \`ork runs\` lists those that there are`)
  return found[0]
}

const everyRun = (client: Client): AsyncGenerator<Run> =>
  everyItem((cursor) => client.listRuns({ limit: PAGE, ...(cursor !== undefined && { cursor }) }))

const placeOf = ({ runId, task, path }: LogRequest): TaskPlace => ({ runId, task, ...(path !== undefined && { path }) })

/** An answer that speaks of the API's parameters, said in the command's options. */
const inOptions = (error: unknown): never => {
  if (error instanceof ClientError && error.details[0]?.path === "index") {
    throw new InputError(error.details[0].message.replace("index=N, or path=1.2 inside", "--index N, or --path 1.2 inside"))
  }
  throw error
}

async function* log<Piece>(
  client: Client,
  request: LogRequest,
  read: (place: TaskPlace & { attempt?: number }) => AsyncGenerator<Piece>,
): AsyncGenerator<Piece> {
  const place = placeOf(request)
  const task = await client.getTask(place).catch(inOptions)
  if (!request.follow && task.attempt === 0) {
    const why = task.error === null ? "" : `: ${task.error}`
    throw new InputError(`task ${task.name} has not run${why}; it is ${task.status}`)
  }
  yield* read({ ...place, ...(request.attempt !== undefined && { attempt: request.attempt }) })
}

export const serverReader = (client: Client): Reader => ({
  async listRuns({ limit, createdAfter, createdBefore, ...filter }) {
    const query = {
      ...filter,
      ...(createdAfter !== undefined && { created_after: createdAfter }),
      ...(createdBefore !== undefined && { created_before: createdBefore }),
      limit: Math.min(limit, PAGE),
    }
    const pages = everyItem((cursor) => client.listRuns({ ...query, ...(cursor !== undefined && { cursor }) }))
    return take(pages, limit)
  },
  findRun: (text) => findServerRun(client, text),
  tasks: (run) => everyItem((cursor) => client.listTasks(run.id, { limit: PAGE, ...(cursor !== undefined && { cursor }) })),
  explain: (run, task) => client.explain(run.id, task),
  logBytes: (request) =>
    log(client, request, ({ attempt, ...place }) => {
      const which = attempt === undefined ? {} : { attempt }
      return request.follow ? client.followLog({ ...place, ...which }) : pieces(client.readLog(place, which))
    }),
  logLines: (request) =>
    log(client, request, ({ attempt, ...place }) => {
      const which = attempt === undefined ? {} : { attempt }
      return request.follow ? client.followLogLines({ ...place, ...which }) : client.readLogLines(place, which)
    }),
})

export async function* pieces(body: Promise<ByteStream>): AsyncGenerator<Uint8Array> {
  for await (const bytes of await body) yield bytes
}
