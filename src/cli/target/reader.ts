// What reading commands ask, answered by a server where there is one and by the store of this folder where there is none.

import type { Context } from "./backends.ts"
import { connectIfThere, type ServerFlags } from "./connect.ts"
import type { StoreFlags } from "./settings.ts"
import type { RunStatus } from "../../core/model/status.ts"
import type { Explanation, Run, Task } from "../../protocol/client/client.ts"
import type { TRIGGERS } from "../../store/contract/store.ts"

export interface ReaderFlags extends StoreFlags, ServerFlags {}

export interface RunFilter {
  workflow?: string
  status?: RunStatus
  trigger?: (typeof TRIGGERS)[number]
  /** This instant and later. */
  createdAfter?: string
  createdBefore?: string
  limit: number
}

export interface LogRequest {
  runId: string
  task: string
  /** Which instance of a fan-out. */
  path?: string
  attempt?: number
  follow: boolean
}

export interface LogLine {
  at: string
  stream: string
  line: string
}

export interface Reader {
  listRuns(filter: RunFilter): Promise<Run[]>
  /** By an id, the beginning of one, or `latest`. */
  findRun(text: string): Promise<Run>
  tasks(run: Run): AsyncGenerator<Task>
  /** With `task` about that one alone. */
  explain(run: Run, task?: string): Promise<Explanation[]>
  logBytes(request: LogRequest): AsyncGenerator<Uint8Array>
  logLines(request: LogRequest): AsyncGenerator<LogLine>
}

/** Who names a database means that one, whatever server there is. */
export const withReader = async <T>(context: Context, flags: ReaderFlags, use: (reader: Reader) => Promise<T>): Promise<T> => {
  const { url, apiKey, ...stores } = flags
  const direct = stores.databaseUrl !== undefined || stores.objectStore !== undefined
  const client = direct && url === undefined ? null : await connectIfThere(context, pick({ url, apiKey }))
  if (client !== null) {
    const { serverReader } = await import("./server-reader.ts")
    return use(serverReader(client))
  }
  const [{ withStores }, { storeReader }] = await Promise.all([import("./open.ts"), import("./store-reader.ts")])
  return withStores(context, stores, (opened) => use(storeReader(context, opened)))
}

const pick = ({ url, apiKey }: { url: string | undefined; apiKey: string | undefined }): ServerFlags => ({
  ...(url !== undefined && { url }),
  ...(apiKey !== undefined && { apiKey }),
})
