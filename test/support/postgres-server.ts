// A real Postgres for tests, in a temporary folder on a free loopback port, with the durability settings of production.
// A shell that holds our pipe is its parent: when this process ends, in whatever way, the pipe closes, the shell stops the
// server and removes the folder. Postgres refuses root, so a root user runs all of it as `nobody`.

import { execFile, spawn, type ChildProcess } from "node:child_process"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { chown, cp, mkdir, mkdtemp, open, rm, symlink } from "node:fs/promises"
import { createRequire } from "node:module"
import { createServer, type AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { basename, dirname, join } from "node:path"
import { once } from "node:events"
import { setTimeout as delay } from "node:timers/promises"
import { promisify } from "node:util"
import { Client } from "pg"

export interface PostgresServer {
  /** Of the maintenance database, as superuser. */
  readonly url: string
  stop(): Promise<void>
}

const NOBODY = 65534
const asUser = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}
const START_ATTEMPTS = 3
const START_DEADLINE_MS = 60_000
const SUPERVISE = `"$@" & server=$!
cat >&3
kill -QUIT $server; wait $server; rm -rf "$ORK_TEST_FOLDER"`

export const startPostgres = async (): Promise<PostgresServer> => {
  const folder = await mkdtemp(join(tmpdir(), "ork-test-postgres-"))
  if (asUser.uid !== undefined) await chown(folder, asUser.uid, asUser.gid)
  try {
    const bin = await findBinaries(folder)
    const data = join(folder, "data")
    const initdb = ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    await promisify(execFile)(join(bin, "initdb"), initdb, { cwd: folder, ...asUser })
    for (let attempt = 1; ; attempt++) {
      try {
        return await startOn(await freePort(), { bin, data, folder })
      } catch (error) {
        if (attempt === START_ATTEMPTS) throw error
      }
    }
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    throw error
  }
}

const startOn = async (port: number, at: { bin: string; data: string; folder: string }): Promise<PostgresServer> => {
  const log = join(at.folder, "log")
  const logFile = await open(log, "a")
  const settings = { listen_addresses: "127.0.0.1", port, unix_socket_directories: "", max_connections: 200 }
  const flags = Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`])
  const shell = spawn("sh", ["-c", SUPERVISE, "sh", join(at.bin, "postgres"), "-D", at.data, ...flags], {
    cwd: at.folder,
    detached: true,
    stdio: ["pipe", logFile.fd, logFile.fd, logFile.fd],
    env: { PATH: process.env.PATH, ORK_TEST_FOLDER: at.folder },
    ...asUser,
  })
  await logFile.close()
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  try {
    await untilReady(url, shell)
  } catch (error) {
    const reason = existsSync(log) ? readFileSync(log, "utf8").slice(-2000) : String(error)
    await stop(shell)
    throw new Error(`Postgres from ${at.bin} did not start:\n${reason}`, { cause: error })
  }
  shell.unref()
  unrefPipe(shell)
  return { url, stop: () => stop(shell) }
}
