// Runs once around a vitest run. Answers test files that ask for the run's Postgres or S3 server, and starts it when the first one does.

import { once } from "node:events"
import { createServer, type AddressInfo } from "node:net"
import { startPostgres } from "./postgres-server.ts"
import { startS3 } from "./s3-server.ts"

interface Started {
  url: string
  stop(): Promise<void>
}

const DESKS: [variable: string, start: () => Promise<Started>][] = [
  ["ORK_TEST_POSTGRES_PORT", startPostgres],
  ["ORK_TEST_S3_PORT", startS3],
]

export default async (): Promise<(() => Promise<void>) | void> => {
  // vitest sets up each project of the run; they share the servers.
  if (process.env[DESKS[0]![0]]) return
  const close = await Promise.all(DESKS.map(([variable, start]) => openDesk(variable, start)))
  return async () => {
    await Promise.all(close.map((one) => one()))
  }
}

const openDesk = async (variable: string, start: () => Promise<Started>): Promise<() => Promise<void>> => {
  let server: Promise<Started> | undefined
  const desk = createServer((asker) => {
    server ??= start()
    server.then(
      ({ url }) => asker.end(JSON.stringify({ url })),
      (error: Error) => asker.end(JSON.stringify({ error: error.message })),
    )
  })
  desk.listen(0, "127.0.0.1")
  await once(desk, "listening")
  process.env[variable] = String((desk.address() as AddressInfo).port)
  return async () => {
    desk.close()
    await (await server?.catch(() => undefined))?.stop()
  }
}
