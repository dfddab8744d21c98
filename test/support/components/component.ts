// A real component for tests (Docker, Slurm), run by a shell script: the script prints "ready", serves until its standard input ends, and
// then stops every process, so that nothing outlives this process.

import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { createServer, type AddressInfo, Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"

export interface Component {
  /** The folder of the script's data. */
  folder: string
  stop(): Promise<void>
}

/** Starts a script with the folder and `args` as arguments. It writes problems to `FOLDER/log`. */
export const startComponent = async (script: string, args: string[] = []): Promise<Component> => {
  const folder = await mkdtemp(join(tmpdir(), "ork-test-"))
  const shell = spawn("bash", [join(import.meta.dirname, script), folder, ...args], {
    detached: true,
    stdio: ["pipe", "pipe", "ignore"],
  })
  const ended = once(shell, "exit")
  const ready = await Promise.race([once(shell.stdout, "data").then(() => true), ended.then(() => false)])
  if (!ready) {
    const log = await readFile(join(folder, "log"), "utf8").catch(() => "")
    await rm(folder, { recursive: true, force: true })
    throw new Error(`${script} did not start: ${log}`)
  }
  shell.unref()
  for (const pipe of [shell.stdin, shell.stdout]) if (pipe instanceof Socket) pipe.unref()
  const stop = async (): Promise<void> => {
    shell.ref()
    shell.stdin.end()
    await ended
    await rm(folder, { recursive: true, force: true })
  }
  return { folder, stop }
}

export const freePort = async (): Promise<number> => {
  const probe = createServer().listen(0, "127.0.0.1")
  await once(probe, "listening")
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, "close")
  return port
}
