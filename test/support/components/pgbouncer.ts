// A real PgBouncer for tests, in front of one database, on a free loopback port. The shell that runs it stops it when the pipe of this
// process closes, so it cannot outlive this process. PgBouncer refuses to run as root, so root runs it as `nobody`.

import { spawn } from "node:child_process"
import { once } from "node:events"
import { chown, mkdtemp, rm, writeFile } from "node:fs/promises"
import { connect } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "./component.ts"
import { installPackages } from "./packages.ts"
import { serverUser } from "./postgres-binaries.ts"

export interface PgBouncer {
  /** The URL of the database through it. */
  readonly url: string
  stop(): Promise<void>
}

const SUPERVISE = `"$@" & server=$!; read -r _; kill -TERM $server; wait $server`

export const installPgBouncer = (): Promise<void> => installPackages(["pgbouncer"], ["pgbouncer"])

/** Starts it with the given mode and number of sessions. `installPgBouncer` has been called. */
export const startPgBouncer = async (database: string, mode: "transaction" | "session", sessions = 4): Promise<PgBouncer> => {
  const { hostname, port, pathname, username, password } = new URL(database)
  const folder = await mkdtemp(join(tmpdir(), "ork-test-pgbouncer-"))
  const listenPort = await freePort()
  const target = `host=${hostname} port=${port} dbname=${pathname.slice(1)} user=${username || "postgres"}`
  const file = join(folder, "pgbouncer.ini")
  await writeFile(
    file,
    `[databases]
app = ${target}${password === "" ? "" : ` password=${password}`}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${listenPort}
unix_socket_dir =
auth_type = any
pool_mode = ${mode}
default_pool_size = ${sessions}
max_client_conn = 200
`,
  )
  if (serverUser.uid !== undefined) await chown(folder, serverUser.uid, serverUser.gid)
  const shell = spawn("bash", ["-c", SUPERVISE, "pgbouncer", "pgbouncer", file], {
    ...serverUser,
    cwd: folder,
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  })
  const ended = once(shell, "exit").then(() => rm(folder, { recursive: true, force: true }))
  await listening(listenPort)
  return {
    url: `postgres://app@127.0.0.1:${listenPort}/app`,
    stop: async () => {
      shell.stdin.end()
      await ended
    },
  }
}

const DEADLINE_MS = 10_000

/** Resolves when the port accepts connections. */
const listening = async (port: number): Promise<void> => {
  const deadline = performance.now() + DEADLINE_MS
  for (;;) {
    const socket = connect(port, "127.0.0.1")
    const failed = await once(socket, "connect").then(
      () => null,
      (error: unknown) => error,
    )
    socket.destroy()
    if (failed === null) return
    if (performance.now() > deadline) throw new Error("pgbouncer did not start", { cause: failed })
  }
}
