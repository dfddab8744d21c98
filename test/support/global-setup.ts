// Runs once around a vitest run. Answers test files that ask for the run's Postgres, and starts it when the first one does.

import { once } from "node:events"
import { createServer, type AddressInfo } from "node:net"
import { startPostgres, type PostgresServer } from "./postgres-server.ts"

export default async (): Promise<(() => Promise<void>) | void> => {
  // vitest sets up each project of the run; they share one server.
  if (process.env.ORK_TEST_POSTGRES_PORT) return
  let server: Promise<PostgresServer> | undefined

  const desk = createServer((asker) => {
    server ??= startPostgres()
    server.then(
      ({ url }) => asker.end(JSON.stringify({ url })),
      (error: Error) => asker.end(JSON.stringify({ error: error.message })),
    )
  })
  desk.listen(0, "127.0.0.1")
  await once(desk, "listening")
  process.env.ORK_TEST_POSTGRES_PORT = String((desk.address() as AddressInfo).port)

  return async () => {
    desk.close()
    await (await server?.catch(() => undefined))?.stop()
  }
}
