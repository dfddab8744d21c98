// The servers of a benchmark: a durable Postgres, and Redis with its default settings.

import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { type AddressInfo, connect, createServer } from "node:net"
import { startPostgres } from "../../test/support/components/postgres-server.ts"

export interface Servers {
  postgres: string
  redis: { host: string; port: number }
  versions: { postgres: string; redis: string }
  stop(): Promise<void>
}

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, "close")
  return port
}

const accepts = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => resolve(true)).once("error", () => resolve(false))
    socket.once("connect", () => socket.destroy())
  })

const startRedis = async (folder: string): Promise<{ server: ChildProcess; port: number }> => {
  const port = await freePort()
  const server = spawn("redis-server", ["--port", String(port), "--bind", "127.0.0.1", "--dir", folder], { stdio: "ignore" })
  server.once("error", () => {})
  while (!(await accepts(port))) {
    if (server.pid === undefined || server.exitCode !== null)
      throw new Error("redis-server does not start; install it with: apt-get install redis-server")
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return { server, port }
}

const redisVersion = (): string => /v=(\S+)/.exec(execFileSync("redis-server", ["--version"], { encoding: "utf8" }))![1]!

export const startServers = async (folder: string): Promise<Servers> => {
  const redis = await startRedis(folder)
  const postgres = await startPostgres({ durable: true })
  const { default: pg } = await import("pg")
  const client = new pg.Client({ connectionString: postgres.url })
  await client.connect()
  const { rows } = await client.query<{ server_version: string }>("SHOW server_version")
  await client.end()
  return {
    postgres: postgres.url,
    redis: { host: "127.0.0.1", port: redis.port },
    versions: { postgres: rows[0]!.server_version, redis: redisVersion() },
    async stop() {
      redis.server.kill("SIGKILL")
      await postgres.stop()
    },
  }
}
