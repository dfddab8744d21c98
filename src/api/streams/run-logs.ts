// The log lines of a run's tasks as they are written, for its event stream (`logs=true`). What was written before the stream was
// opened is left out; the logs themselves have it.

import type { RunId } from "../../core/model/ids.ts"
import { indexOf } from "../../protocol/api/shapes.ts"
import type { TaskRow } from "../../store/contract/store.ts"
import type { Frame } from "./event-feed.ts"
import { lineShape } from "./log-format.ts"
import { currentLog } from "./log-source.ts"
import type { Api } from "../http/ports.ts"
import type { Stream } from "./streams.ts"

/** Logs followed at once by one stream; those of further tasks are left out. */
const MAX_FOLLOWED = 64
const PAGE = 500

export class RunLogs {
  readonly #api: Api
  readonly #runId: RunId
  readonly #stream: Stream
  readonly #followed = new Map<string, AbortController>()

  constructor(api: Api, runId: RunId, stream: Stream) {
    this.#api = api
    this.#runId = runId
    this.#stream = stream
    stream.closed.addEventListener("abort", () => {
      for (const over of this.#followed.values()) over.abort()
    })
  }

  /** Tasks that run already, from where their logs are now. */
  async start(): Promise<void> {
    const tasks = await this.#api.store.listTasks({ runId: this.#runId, limit: PAGE })
    for (const task of tasks) if (task.status === "running") this.#follow(task.name, task.path, true)
  }

  update(frames: readonly Frame[]): void {
    for (const { event } of frames) {
      if (event.type !== "task" || event.task === undefined) continue
      const path = event.path ?? ""
      if (event.status === "running") this.#follow(event.task, path, false)
      else if (event.status !== "dispatched") this.#followed.get(`${event.task} ${path}`)?.abort()
    }
  }

  #follow(name: string, path: string, fromNow: boolean): void {
    const key = `${name} ${path}`
    if (this.#followed.has(key) || this.#followed.size >= MAX_FOLLOWED || this.#stream.closed.aborted) return
    const over = new AbortController()
    this.#followed.set(key, over)
    void this.#copy(name, path, fromNow, over.signal)
      .catch((error: unknown) => this.#api.log.warn({ error: String(error) }, "a log could not be followed"))
      .finally(() => this.#followed.delete(key))
  }

  async #copy(name: string, path: string, fromNow: boolean, ended: AbortSignal): Promise<void> {
    const task = await this.#api.store.getTask({ runId: this.#runId, name, path })
    const log = task === null ? null : await currentLog(this.#api, task, undefined)
    if (task === null || log === null) return
    const offset = fromNow ? await log.size() : 0
    for await (const line of log.lines({ offset, ended })) {
      if (this.#stream.closed.aborted) return
      await this.#stream.send(frame(task, lineShape(line)))
    }
  }
}

const frame = (task: TaskRow, line: ReturnType<typeof lineShape>): string => {
  const place = { run_id: task.runId, task: task.name, index: indexOf(task.path), path: task.path, attempt: task.attempt }
  return `event: log\ndata: ${JSON.stringify({ ...place, ...line })}\n\n`
}
