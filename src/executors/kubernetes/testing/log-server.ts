// The logs of fake pods, as a kubelet serves them through the API server: nothing, not even a status, before there is something to send; entries
// from a time on, with stamps at the beginnings of lines; followed to the container's end.

import type { ServerResponse } from "node:http"
import { compareStamps } from "../log-lines.ts"
import type { Kubelet } from "./kubelet.ts"
import type { ApiObject } from "./store.ts"

export class LogServer {
  /** Bytes that the next connections give before they break. */
  breaks: number[] = []
  /** What the kubelet says in place of following, at the end of the next connections. */
  words: string[] = []
  /** Connections that are held open and give nothing any more. */
  dead = 0
  readonly #kubelet: Kubelet

  constructor(kubelet: Kubelet) {
    this.#kubelet = kubelet
  }

  serve(pod: ApiObject, query: URLSearchParams, response: ServerResponse): void {
    const since = query.get("sinceTime")
    if (query.get("container") !== "task" || query.get("follow") !== "true" || query.get("timestamps") !== "true") {
      return refuse(response, "unexpected parameters of a log")
    }
    if (since !== null && !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(Z|[+-]\d\d:\d\d)$/.test(since))
      return refuse(response, "bad sinceTime")
    const process = this.#kubelet.processes.get(pod.metadata.name)
    if (process === undefined) return this.#hollow(pod, response)
    let left = this.breaks.shift() ?? Number.POSITIVE_INFINITY
    const words = this.words.shift()
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
      if (process.exited === null && words === undefined) return
      stop()
      response.end(words)
    }
    const stop = process.listen(send)
    response.on("close", stop)
    send()
  }

  /** A pod without a process says one line, at its end. */
  #hollow(pod: ApiObject, response: ServerResponse): void {
    if (pod.status?.["phase"] === "Pending" || !this.#kubelet.hollow) {
      return refuse(response, `container "task" in pod "${pod.metadata.name}" is waiting to start: ContainerCreating`)
    }
    void this.#kubelet.hollowEnd(pod).then(() => {
      response.writeHead(200, { "content-type": "text/plain" })
      response.end(`${this.#kubelet.now()} {"hollow":true}\n`)
    })
  }
}

const refuse = (response: ServerResponse, message: string): void => {
  response.writeHead(400, { "content-type": "application/json" })
  response.end(JSON.stringify({ kind: "Status", code: 400, reason: "BadRequest", message }))
}
