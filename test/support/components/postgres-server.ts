// A real Postgres for tests, in a temporary folder on a free loopback port, with the durability settings of production.
// Its parent is a shell that reads a pipe of this process: when this process ends, even by SIGKILL, the shell stops the server and removes
// the folder. Postgres does not run as root, so root runs it as `nobody`.

import { execFile, spawn, type ChildProcess } from "node:child_process"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { chown, mkdtemp, open, rm } from "node:fs/promises"
import { Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { promisify } from "node:util"
import { Client } from "pg"
import { freePort } from "./component.ts"
import { binariesIn, findBinaries, serverUser } from "./postgres-binaries.ts"

export interface PostgresServer {
  /** The URL of the maintenance database, as superuser. */
  readonly url: string
  /** Stops the server, starts it again after a pause, and resolves when it accepts connections. */
  restart(options?: RestartOptions): Promise<void>
  stop(): Promise<void>
}

export interface RestartOptions {
  /** INT: it ends its connections. QUIT: as after a crash, it recovers at its start. Default: INT. */
  signal?: "INT" | "QUIT"
  downSeconds?: number
}

const START_ATTEMPTS = 3
const START_DEADLINE_MS = 60_000
const START_FAILED = /could not create any TCP\/IP sockets|database system is shut down/
/** Runs the server, and restarts it for each line with a signal and a pause. */
const SUPERVISE = `while "$@" & server=$!; read -r signal pause; do
  kill -$signal $server; wait $server; sleep $pause
done
kill -QUIT $server; wait $server; cd /; rm -rf "$ORK_TEST_FOLDER"`

export interface PostgresOptions {
  /** Syncs files, as a server in production does. Tests need no database that survives a power loss, and are much faster without. */
  durable?: boolean
  /** The folder of `bin` and `lib` of a Postgres. Default: that of the project, or of Debian. */
  native?: string
}

/** Starts a server. Retries, because another process may take the free port before Postgres binds it. */
export const startPostgres = async (options: PostgresOptions = {}, attempt = 1): Promise<PostgresServer> => {
  const { durable = false, native } = options
  const folder = await mkdtemp(join(tmpdir(), "ork-test-postgres-"))
  try {
    if (serverUser.uid !== undefined) await chown(folder, serverUser.uid, serverUser.gid)
    const bin = await (native === undefined ? findBinaries(folder) : binariesIn(native, folder))
    const initdb = ["-D", join(folder, "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    await promisify(execFile)(join(bin, "initdb"), initdb, { cwd: folder, ...serverUser })
    return await startIn(folder, bin, await freePort(), durable)
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    if (attempt < START_ATTEMPTS && error instanceof NotStarted) return startPostgres(options, attempt + 1)
    throw error
  }
}

class NotStarted extends Error {}

const startIn = async (folder: string, bin: string, port: number, durable: boolean): Promise<PostgresServer> => {
  const log = await open(join(folder, "log"), "a")
  const settings = {
    listen_addresses: "127.0.0.1",
    port,
    unix_socket_directories: "",
    max_connections: 200,
    ...(!durable && { fsync: "off", full_page_writes: "off" }),
  }
  const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])
  const shell = spawn("sh", ["-c", SUPERVISE, "sh", join(bin, "postgres"), "-D", join(folder, "data"), ...flags], {
    cwd: folder,
    detached: true,
    stdio: ["pipe", log.fd, log.fd],
    env: { PATH: process.env.PATH, ORK_TEST_FOLDER: folder },
    ...serverUser,
  })
  await log.close()
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  try {
    await untilReady(url, () => readFileSync(join(folder, "log"), "utf8"))
  } catch (error) {
    await stop(shell)
    throw error
  }
  shell.unref()
  if (shell.stdin instanceof Socket) shell.stdin.unref()
  const restart = async ({ signal = "INT", downSeconds = 0 }: RestartOptions = {}): Promise<void> => {
    const client = new Client({ connectionString: url })
    const ended = new Promise((resolve) => client.once("error", resolve).once("end", resolve))
    client.on("error", () => {})
    await client.connect()
    shell.stdin?.write(`${signal} ${downSeconds}\n`)
    await ended
    await untilReady(url, () => "")
  }
  return { url, restart, stop: () => stop(shell) }
}

const stop = async (shell: ChildProcess): Promise<void> => {
  if (shell.exitCode !== null || shell.signalCode !== null) return
  const exit = once(shell, "exit")
  shell.ref()
  shell.stdin?.end()
  await exit
}

const untilReady = async (url: string, log: () => string): Promise<void> => {
  const deadline = Date.now() + START_DEADLINE_MS
  for (;;) {
    const client = new Client({ connectionString: url })
    try {
      await client.connect()
      return await client.end()
    } catch (cause) {
      const output = log()
      if (START_FAILED.test(output) || Date.now() > deadline)
        throw new NotStarted(`Postgres did not start:\n${output}`, { cause })
      await delay(20)
    }
  }
}
