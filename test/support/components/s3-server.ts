// A real S3 server for tests: Ceph's radosgw (radosgw.sh), in a temporary folder on free loopback ports. The shell that runs it stops it
// when the pipe of this process closes, so it cannot outlive this process.

import { spawn } from "node:child_process"
import { once } from "node:events"
import { readFile, rm } from "node:fs/promises"
import { Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { freePort } from "./component.ts"
import { installPackages } from "./packages.ts"

export const ACCESS_KEY = "AKIDTEST"
export const SECRET = "SECRETTEST"

export interface S3Server {
  readonly url: string
  stop(): Promise<void>
}

const PROGRAMS = ["radosgw", "ceph-mon", "ceph-osd"]

export const startS3 = async (): Promise<S3Server> => {
  await installPackages(PROGRAMS, ["curl", ...PROGRAMS])
  const folder = join(tmpdir(), `ork-test-s3-${process.pid}-${Date.now()}`)
  const ports = [await freePort(), await freePort(), await freePort()]
  const args = [join(import.meta.dirname, "radosgw.sh"), folder, ...ports.map(String), ACCESS_KEY, SECRET]
  const shell = spawn("bash", args, { detached: true, stdio: ["pipe", "pipe", "ignore"] })
  const ended = once(shell, "exit")
  const stop = async (): Promise<void> => {
    shell.ref()
    shell.stdin.end()
    await ended
  }
  const ready = await Promise.race([once(shell.stdout, "data").then(() => true), ended.then(() => false)])
  if (!ready) {
    const log = await readFile(join(folder, "log", "setup"), "utf8").catch(() => "")
    await rm(folder, { recursive: true, force: true })
    throw new Error(`radosgw did not start: ${log}`)
  }
  shell.unref()
  for (const pipe of [shell.stdin, shell.stdout]) if (pipe instanceof Socket) pipe.unref()
  return { url: `http://127.0.0.1:${ports[2]}`, stop }
}
