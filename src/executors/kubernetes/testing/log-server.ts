// The logs of fake pods, as a kubelet serves them: lines with stamps, from a second on, followed to the container's end.

import type { ServerResponse } from "node:http"
import type { Controllers } from "./controllers.ts"
import type { ApiObject } from "./store.ts"

export class LogServer {
  /** Bytes that the next connections give before they break. */
  breaks: number[] = []
  readonly #controllers: Controllers

  constructor(controllers: Controllers) {
    this.#controllers = controllers
  }

  serve(pod: ApiObject, query: URLSearchParams, response: ServerResponse): void {
    const process = this.#controllers.processes.get(pod.metadata.name)
    if (query.get("container") !== "task" || query.get("follow") !== "true" || query.get("timestamps") !== "true") {
      response.writeHead(400).end(JSON.stringify({ reason: "BadRequest", message: "unexpected parameters of a log" }))
      return
    }
    if (process === undefined) return this.#hollow(pod, response)
    response.writeHead(200, { "content-type": "text/plain" })
    const since = (query.get("sinceTime") ?? "").slice(0, 19)
    let left = this.breaks.shift() ?? Number.POSITIVE_INFINITY
    let line = 0
    let within = 0
    const write = (bytes: Buffer): boolean => {
      const part = bytes.subarray(0, left)
      response.write(part, () => left <= 0 && response.destroy())
      left -= part.length
      return left > 0
    }
    const send = (): void => {
      for (; line < process.entries.length; line++, within = 0) {
        const { stamp, text } = process.entries[line]!
        if (stamp.slice(0, 19) < since) continue
        const whole = Buffer.concat([Buffer.from(`${stamp} `), text])
        if (whole.length > within && !write(whole.subarray(within))) return stop()
        within = whole.length
        if (text.at(-1) !== 0x0a) break
      }
      if (process.exited === null) return
      stop()
      response.end()
    }
    const stop = process.listen(send)
    response.on("close", stop)
    send()
  }

  /** A pod without a process says one line, at its end. */
  #hollow(pod: ApiObject, response: ServerResponse): void {
    if ((pod.status?.["phase"] ?? "Pending") === "Pending") {
      const message = `container "task" in pod "${pod.metadata.name}" is waiting to start: ContainerCreating`
      response.writeHead(400).end(JSON.stringify({ reason: "BadRequest", message }))
      return
    }
    response.writeHead(200, { "content-type": "text/plain" })
    response.flushHeaders()
    void this.#controllers.hollowEnd(pod).then(() => response.end(`${this.#controllers.now()} {"hollow":true}\n`))
  }
}
