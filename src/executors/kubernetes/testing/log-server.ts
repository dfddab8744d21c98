// Serves the logs of fake pods as a kubelet does through the API server: no response, not even a status, before the first byte;
// entries since a time, with timestamps at the start of lines; followed to the container's end.

import type { ServerResponse } from "node:http"
import { compareStamps } from "../log-lines.ts"
import type { Kubelet } from "./kubelet.ts"
import type { ApiObject } from "./object-storage.ts"

export class LogServer {
  /** Bytes after which the next connections break. */
  breaks: number[] = []
  /** Messages with which the kubelet ends the next connections instead of following the log. */
  messages: string[] = []
  /** Number of next connections that stay open and send nothing. */
  dead = 0
  readonly #kubelet: Kubelet

  constructor(kubelet: Kubelet) {
    this.#kubelet = kubelet
  }

  serve(pod: ApiObject, query: URLSearchParams, response: ServerResponse): void {
    const since = query.get("sinceTime")
    if (query.get("container") !== "task" || query.get("follow") !== "true" || query.get("timestamps") !== "true") {
      return reject(response, "unexpected parameters of a log")
    }
    if (since !== null && !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)$/.test(since))
      return reject(response, "bad sinceTime")
    const process = this.#kubelet.processes.get(pod.metadata.name)
    if (process === undefined) return this.#hollow(pod, response)
    let left = this.breaks.shift() ?? Number.POSITIVE_INFINITY
    const message = this.messages.shift()
    const dead = this.dead > 0 && this.dead-- > 0
    let at = 0
    let begins = true
    const write = (bytes: Buffer): boolean => {
      if (!response.headersSent) response.writeHead(200, { "content-type": "text/plain" })
      const part = bytes.subarray(0, left)
      response.write(part, () => left <= 0 && response.destroy())
      left -= part.length
      return left > 0
    }
    const send = (): void => {
      if (dead) return
      for (; at < process.entries.length; at++) {
        const { stamp, text } = process.entries[at]!
        const line = begins ? Buffer.concat([Buffer.from(`${stamp} `), text]) : text
        begins = text.at(-1) === 0x0a
        if ((since === null || compareStamps(stamp, since) >= 0) && !write(line)) return stop()
      }
      if (process.exited === null && message === undefined) return
      stop()
      response.end(message)
    }
    const stop = process.listen(send)
    response.on("close", stop)
    send()
  }

  /** Serves the log of a pod without a process: one line at its end. */
  #hollow(pod: ApiObject, response: ServerResponse): void {
    if (pod.status?.["phase"] === "Pending" || !this.#kubelet.hollow) {
      return reject(response, `container "task" in pod "${pod.metadata.name}" is waiting to start: ContainerCreating`)
    }
    void this.#kubelet.hollowEnd(pod).then(() => {
      response.writeHead(200, { "content-type": "text/plain" })
      response.end(`${this.#kubelet.now()} {"hollow":true}\n`)
    })
  }
}

const reject = (response: ServerResponse, message: string): void => {
  response.writeHead(400, { "content-type": "application/json" })
  response.end(JSON.stringify({ kind: "Status", code: 400, reason: "BadRequest", message }))
}
