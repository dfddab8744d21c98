// Sends the log lines of a run's tasks on its event stream (`logs=true`), as they are written. Lines from before the stream was opened are
// left out; `GET …/logs` has them.

import type { RunId } from "../../core/model/ids.ts"
import { instanceIndex } from "../../engine/run-json.ts"
import type { TaskRow } from "../../store/contract/store.ts"
import type { Frame } from "../feed/event-feed.ts"
import { lineShape } from "./log-format.ts"
import { currentLog } from "./log-source.ts"
import type { Api } from "../http/ports.ts"
import type { Stream } from "../feed/streams.ts"

/** Maximum number of logs that one stream follows at a time. Further tasks are left out. */
const MAX_FOLLOWED = 64
const PAGE = 500

export class RunLogs {
  readonly #api: Api
  readonly #runId: RunId
  readonly #stream: Stream
  /** By task name and path. */
  readonly #followed = new Map<string, AbortController>()

  constructor(api: Api, runId: RunId, stream: Stream) {
    this.#api = api
    this.#runId = runId
    this.#stream = stream
    stream.closed.addEventListener("abort", () => {
      for (const ended of this.#followed.values()) ended.abort()
    })
  }

  /** Follows the tasks that are already running, from the current end of their logs. */
  async start(): Promise<void> {
    const tasks = await this.#api.store.listTasks({ runId: this.#runId, limit: PAGE })
    for (const task of tasks) if (task.status === "running") this.#follow(task.name, task.path, true)
  }

  /** Follows tasks that start and stops following tasks that finish. */
  update(frames: readonly Frame[]): void {
    for (const { event } of frames) {
      if (event.type !== "task" || event.task === undefined) continue
      const path = event.path ?? ""
      if (event.status === "running") this.#follow(event.task, path, false)
      else if (event.status !== "dispatched") this.#followed.get(`${event.task} ${path}`)?.abort()
    }
  }

  #follow(name: string, path: string, fromEnd: boolean): void {
    const key = `${name} ${path}`
    if (this.#followed.has(key) || this.#followed.size >= MAX_FOLLOWED || this.#stream.closed.aborted) return
    const ended = new AbortController()
    this.#followed.set(key, ended)
    void this.#copy(name, path, fromEnd, ended.signal)
      .catch((error: unknown) => this.#api.log.warn({ error: String(error) }, "failed to follow a log"))
      .finally(() => this.#followed.delete(key))
  }

  async #copy(name: string, path: string, fromEnd: boolean, ended: AbortSignal): Promise<void> {
    const task = await this.#api.store.getTask({ runId: this.#runId, name, path })
    const log = task === null ? null : await currentLog(this.#api, task, undefined)
    if (task === null || log === null) return
    const offset = fromEnd ? await log.size() : 0
    for await (const line of log.lines({ offset, ended })) {
      if (this.#stream.closed.aborted) return
      await this.#stream.send(frameText(task, lineShape(line)))
    }
  }
}

const frameText = (task: TaskRow, line: ReturnType<typeof lineShape>): string => {
  const source = {
    run_id: task.runId,
    task: task.name,
    index: instanceIndex(task.path),
    path: task.path,
    attempt: task.attempt,
  }
  return `event: log\ndata: ${JSON.stringify({ ...source, ...line })}\n\n`
}
