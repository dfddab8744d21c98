// Runs the command line in this process, with a server and a folder of its own.

import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Readable, Writable } from "node:stream"
import { ADMIN_KEY, setup } from "../../api/testing/setup.ts"
import type { ServerOptions } from "../../api/http/ports.ts"
import { systemClock, systemRandom } from "../../engine/system.ts"
import { openSecrets } from "../../secrets/open.ts"
import type { Backends, Context } from "../target/context.ts"
import { main } from "../program.ts"

export interface CommandResult {
  code: number
  stdout: string
  stderr: string
}

const unsupported = (): never => {
  throw new Error("this test has no store of its own")
}

/** Backends without stores: commands can read only from a server. */
const backends: Backends = {
  clock: systemClock,
  random: systemRandom,
  openStore: async () => null,
  openObjects: unsupported,
  openBucket: unsupported,
  openSecrets: async (config, where) => openSecrets(config, { ...where, clock: systemClock }),
  engineParts: unsupported,
  handlerNames: unsupported,
  handlerExecutors: unsupported,
  processIdentity: () => "",
  processAlive: () => false,
  inspect: async () => ({ sqlite: "version 3", spawn: { problem: "none in tests" }, tools: [] }),
}

class Captured extends Writable {
  text = ""
  readonly isTTY = false
  override _write(chunk: Buffer | string, _encoding: string, done: () => void): void {
    this.text += chunk.toString()
    done()
  }
}

/** `input`: what standard input contains. */
export const runMain = async (
  args: string[],
  { input = "", ...where }: Pick<Context, "cwd" | "env"> & { input?: string },
): Promise<CommandResult> => {
  const [stdout, stderr] = [new Captured(), new Captured()]
  const code = await main(
    {
      backends,
      version: () => "0.0.0",
      stdin: () => Readable.from([input]) as unknown as NodeJS.ReadStream,
      stdout: stdout as unknown as NodeJS.WriteStream,
      stderr: stderr as unknown as NodeJS.WriteStream,
      ...where,
    },
    args,
  )
  return { code, stdout: stdout.text, stderr: stderr.text }
}

/** Starts a server; `await using` stops it. */
export const commandLine = async (change: Partial<ServerOptions> = {}) => {
  const api = await setup(change)
  const url = await api.server.app.listen({ host: "127.0.0.1", port: 0 })
  const cwd = await mkdtemp(join(tmpdir(), "ork-cli-"))
  await mkdir(join(cwd, ".ork"))
  await writeFile(join(cwd, ".ork/server.json"), JSON.stringify({ url, pid: process.pid }))
  await writeFile(join(cwd, ".ork/admin.key"), `${ADMIN_KEY}\n`)
  const ork = (...args: string[]): Promise<CommandResult> => runMain(args, { cwd, env: {} })
  return {
    api,
    url,
    cwd,
    ork,
    /** Runs the command with --json and parses its output; throws if it fails. */
    async json(...args: string[]): Promise<unknown> {
      const { code, stdout, stderr } = await ork(...args, "--json")
      if (code !== 0) throw new Error(`ork ${args.join(" ")}: exit ${code}: ${stderr}`)
      return JSON.parse(stdout)
    },
    file: (name: string, text: string) => writeFile(join(cwd, name), text),
    async [Symbol.asyncDispose]() {
      await api[Symbol.asyncDispose]()
      await rm(cwd, { recursive: true, force: true })
    },
  }
}
