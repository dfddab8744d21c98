// An HTTP server in the test that records the requests that it receives.

import { once } from "node:events"
import { createServer, type IncomingHttpHeaders } from "node:http"
import type { AddressInfo } from "node:net"
import { onTestFinished } from "vitest"

export interface Received {
  path: string
  headers: IncomingHttpHeaders
  body: string
}

export const startReceiver = async (): Promise<{ url: string; received: Received[] }> => {
  const received: Received[] = []
  const server = createServer((request, response) => {
    let body = ""
    request.setEncoding("utf8")
    request.on("data", (part: string) => (body += part))
    request.on("end", () => {
      received.push({ path: request.url!, headers: request.headers, body })
      response.writeHead(200, { "content-type": "application/json" }).end("{}")
    })
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, received }
}
