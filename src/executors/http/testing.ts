// A web server for tests of what sends requests: answers as told, keeps what it was sent.

import { once } from "node:events"
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { onTestFinished } from "vitest"

export interface Seen {
  method: string
  path: string
  headers: IncomingHttpHeaders
  body: string
}

export interface WebServer {
  port: number
  url: string
  seen: Seen[]
}

export const startWeb = async (answer: (seen: Seen, response: ServerResponse) => void): Promise<WebServer> => {
  const seen: Seen[] = []
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on("data", (part: Buffer) => parts.push(part))
    request.on("end", () => {
      const one = {
        method: request.method ?? "",
        path: request.url ?? "",
        headers: request.headers,
        body: Buffer.concat(parts).toString(),
      }
      seen.push(one)
      answer(one, response)
    })
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return { port, url: `http://127.0.0.1:${port}`, seen }
}
