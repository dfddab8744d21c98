// Runs once around a vitest run. Gives test files the address of the run's Postgres or S3 server, which it starts on the first request.

import { once } from "node:events"
import { createServer, type AddressInfo } from "node:net"
import { startPostgres } from "./components/postgres-server.ts"
import { startS3 } from "./components/s3-server.ts"

interface Started {
  url: string
  stop(): Promise<void>
}

const SERVERS: [variable: string, start: () => Promise<Started>][] = [
  ["ORK_TEST_POSTGRES_PORT", startPostgres],
  ["ORK_TEST_S3_PORT", startS3],
]

export default async (): Promise<(() => Promise<void>) | void> => {
  // vitest calls this for each project of the run; they share the servers.
  if (process.env[SERVERS[0]![0]]) return
  const close = await Promise.all(SERVERS.map(([variable, start]) => shareServer(variable, start)))
  return async () => {
    await Promise.all(close.map((one) => one()))
  }
}

const shareServer = async (variable: string, start: () => Promise<Started>): Promise<() => Promise<void>> => {
  let server: Promise<Started> | undefined
  const socket = createServer((client) => {
    server ??= start()
    server.then(
      ({ url }) => client.end(JSON.stringify({ url })),
      (error: Error) => client.end(JSON.stringify({ error: error.message })),
    )
  })
  socket.listen(0, "127.0.0.1")
  await once(socket, "listening")
  process.env[variable] = String((socket.address() as AddressInfo).port)
  return async () => {
    socket.close()
    await (await server?.catch(() => undefined))?.stop()
  }
}
