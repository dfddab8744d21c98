// A real component for tests, run by a shell script of its own: the script says "ready", serves until its standard input ends, then
// ends every process and removes its folder. So nothing outlives this process, in whatever way that ends.

import { execFile, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { createServer, type AddressInfo, Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"

const run = promisify(execFile)

export interface Component {
  /** The script's own, where it keeps all that it has. */
  folder: string
  stop(): Promise<void>
}

/** What is missing is installed from Debian's packages. */
export const install = async (programs: string[], packages: string[]): Promise<void> => {
  try {
    for (const program of programs) await run("which", [program])
  } catch {
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" }
    await run("apt-get", ["install", "-y", "--no-install-recommends", ...packages], { env, maxBuffer: 1 << 26 })
  }
}

/** The script gets the folder first, then `args`. It writes what goes wrong to `FOLDER/log`. */
export const startComponent = async (script: string, args: string[] = []): Promise<Component> => {
  const folder = await mkdtemp(join(tmpdir(), "ork-test-"))
  const shell = spawn("bash", [join(import.meta.dirname, script), folder, ...args], {
    detached: true,
    stdio: ["pipe", "pipe", "ignore"],
  })
  const ended = once(shell, "exit")
  const ready = await Promise.race([once(shell.stdout, "data").then(() => true), ended.then(() => false)])
  if (!ready) {
    const said = await readFile(join(folder, "log"), "utf8").catch(() => "")
    await rm(folder, { recursive: true, force: true })
    throw new Error(`${script} did not start: ${said}`)
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
