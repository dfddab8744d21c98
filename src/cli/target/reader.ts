// Reads runs, tasks and logs: from a server if one is running, otherwise from the store of this folder.

import type { Context } from "./context.ts"
import { connectIfRunning, type ServerFlags } from "./connect.ts"
import type { StoreFlags } from "./load-config.ts"
import { type OpenStores, withStores } from "./stores.ts"
import type { Artifact } from "../../core/model/artifacts.ts"
import { omitUndefined } from "../../core/values/omit-undefined.ts"
import type { RunStatus } from "../../core/model/status.ts"
import { type Client, collect, type Explanation, type Run, type RunGraph, type Task } from "../../protocol/client/client.ts"
import type { TRIGGERS } from "../../store/contract/store.ts"

export interface ReaderFlags extends StoreFlags, ServerFlags {}

export interface RunFilter {
  workflow?: string
  status?: RunStatus
  trigger?: (typeof TRIGGERS)[number]
  /** Inclusive. */
  createdAfter?: string
  /** Exclusive. */
  createdBefore?: string
  limit: number
}

export interface LogRequest {
  runId: string
  task: string
  /** Instance of a fan-out. */
  path?: string
  /** Latest attempt if undefined. */
  attempt?: number
  follow: boolean
}

export interface LogLine {
  at: string
  stream: string
  line: string
}

export interface ArtifactRequest {
  runId: string
  task: string
  /** Instance of a fan-out; empty without one. */
  path: string
  /** Latest attempt if undefined. */
  attempt?: number
}

export interface RunReader {
  listRuns(filter: RunFilter): Promise<Run[]>
  /** Finds a run as target/find-run.ts describes. */
  findRun(text: string): Promise<Run>
  tasks(run: Run): AsyncGenerator<Task>
  graph(run: Run): Promise<RunGraph>
  /** Returns the path of the instance with this label. Throws if there is none, or more than one. */
  pathOf(run: Run, task: string, label: string): Promise<string>
  /** Explains every unfinished task, or only the named one. */
  explain(run: Run, task?: string): Promise<Explanation[]>
  /** Yields the run as one JSON document: protocol/api/run-export.ts. */
  export(run: Run): AsyncGenerator<Uint8Array | string>
  logBytes(request: LogRequest): AsyncGenerator<Uint8Array>
  logLines(request: LogRequest): AsyncGenerator<LogLine>
  artifacts(request: ArtifactRequest): Promise<readonly Artifact[]>
  artifactBytes(request: ArtifactRequest, file: string): AsyncGenerator<Uint8Array>
}

/** Returns all instances of a run's tasks, in the order of the graph. */
export const tasksInOrder = async (reader: RunReader, run: Run, graph: RunGraph): Promise<Task[]> => {
  const order = new Map(graph.tasks.map(({ name }, i) => [name, i]))
  return (await collect(reader.tasks(run))).toSorted((a, b) => order.get(a.name)! - order.get(b.name)!)
}

export const withReader = <T>(context: Context, flags: ReaderFlags, use: (reader: RunReader) => Promise<T>): Promise<T> =>
  withServerOrStores(context, flags, {
    server: async (client) => use((await import("./server-reader.ts")).serverReader(client)),
    stores: async (stores) => use((await import("./store-reader.ts")).storeReader(context, stores)),
  })

/** Calls `server` if a server is running, `stores` otherwise. A named database always takes precedence over an unnamed server. */
export const withServerOrStores = async <T>(
  context: Context,
  { url, apiKey, databaseUrl, objectStore }: ReaderFlags,
  use: { server(client: Client): Promise<T>; stores(stores: OpenStores): Promise<T> },
): Promise<T> => {
  const namesStore = databaseUrl !== undefined || objectStore !== undefined
  const client = namesStore && url === undefined ? null : await connectIfRunning(context, omitUndefined({ url, apiKey }))
  if (client !== null) return use.server(client)
  return withStores(context, omitUndefined({ databaseUrl, objectStore }), use.stores)
}
