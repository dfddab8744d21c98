// Runs the steps of the Dockerfile in a folder, without system packages: the copied files suffice to build, and the kept files suffice to
// run. Needs the npm registry (or its cache) and a C compiler, but no image registry.

import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { cpSync, mkdirSync, readFileSync, readdirSync } from "node:fs"
import { basename, dirname, join } from "node:path"
import { expect, test } from "vitest"
import { REPO, temporaryFolder } from "../support/ork.ts"
import { type Instruction, parseDockerfile, type Stage } from "./dockerfile.ts"

const stages = parseDockerfile(readFileSync(join(REPO, "deploy/Dockerfile"), "utf8"))

/** Runs the copies of a stage and, if wanted, its commands, with `root` as the root of the image. */
const follow = (stage: Stage, roots: Map<string, string>, root: string, runs: (rest: string) => boolean): void => {
  let folder = root
  for (const { name, rest, flags } of stage.instructions) {
    if (name === "WORKDIR") mkdirSync((folder = join(root, rest)), { recursive: true })
    else if (name === "COPY") copy({ rest, flags }, roots, folder)
    else if (name === "RUN" && runs(rest))
      execFileSync("sh", ["-ec", rest], { cwd: folder, stdio: ["ignore", "ignore", "inherit"] })
  }
}

const copy = ({ rest, flags }: Pick<Instruction, "rest" | "flags">, roots: Map<string, string>, folder: string): void => {
  const words = rest.split(/\s+/)
  const target = words.pop()!
  for (const source of words) {
    const from = join(flags["from"] === undefined ? REPO : roots.get(flags["from"])!, source)
    const into = source.endsWith("/") ? join(folder, target) : join(folder, target, basename(source))
    mkdirSync(dirname(into), { recursive: true })
    cpSync(from, into, { recursive: true, filter: (path) => flags["from"] !== undefined || !path.includes("node_modules") })
  }
}

test(
  "what the Dockerfile copies is enough to build, and what it keeps is enough to serve",
  { timeout: 1_200_000 },
  async () => {
    const [build, last] = stages as [Stage, Stage]
    const [buildRoot, lastRoot] = [temporaryFolder(), temporaryFolder()]
    follow(build, new Map(), buildRoot, (rest) => !rest.startsWith("apt-get"))
    expect(readdirSync(join(buildRoot, "src/native")).some((name) => name.startsWith("ork-spawn-"))).toBe(true)
    follow(last, new Map([["build", buildRoot]]), lastRoot, () => false)

    const ork = join(lastRoot, "opt/ork/bin/ork")
    const data = temporaryFolder()
    const env = { PATH: process.env["PATH"], HOME: data, ORK_DATA_DIR: data, ORK_PORT: "0" }
    const server = spawn(ork, ["serve"], { cwd: data, env, stdio: ["ignore", "pipe", "inherit"] })
    try {
      let output = ""
      server.stdout.on("data", (part: Buffer) => (output += part.toString()))
      const ended = once(server, "exit").then(() => Promise.reject(new Error(`it ended: ${output}`)))
      while (!/is ready at \S+/.test(output)) await Promise.race([once(server.stdout, "data"), ended])
      ended.catch(() => {})
      const port = /is ready at \S+:(\d+)/.exec(output)![1]!
      const [health] = last.instructions.filter(({ name }) => name === "HEALTHCHECK")
      const [program, ...args] = health!.words!
      execFileSync(program!, args, { env: { ...env, ORK_PORT: port } })
      expect(() => execFileSync(program!, args, { env: { ...env, ORK_PORT: "1" }, stdio: "ignore" })).toThrow()
    } finally {
      if (server.exitCode === null && server.kill("SIGTERM")) await once(server, "exit")
    }
  },
)
