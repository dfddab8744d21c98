// What executors find on this machine and around it, for `ork doctor`: interpreters, a container engine, clusters. Each look has an end, and
// what is not there is no fault: only tasks that name it need it.

import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { messageOf } from "../core/model/error-message.ts"
import type { Clock } from "../core/model/ports.ts"

export interface Finding {
  name: string
  /** none: not here. warn: here, and of no use as it is. */
  state: "ok" | "warn" | "none"
  detail: string
}

export interface Surroundings {
  env: { [name: string]: string | undefined }
  kubeconfig: string
  slurmCommand: string
  clock: Clock
}

const LOOK_MS = 5000
const OLDEST_PYTHON = [3, 9] as const

type Look = (surroundings: Surroundings) => Promise<Omit<Finding, "name">>

const python: Look = async ({ env }) => {
  const said = await run("python3", ["--version"], env).catch((error: unknown) => error as NodeJS.ErrnoException)
  if (said instanceof Error) {
    if (said.code === "ENOENT") return none("no python3 in PATH, which `python` tasks need")
    return warn(`python3 does not start: ${said.message.trim()}`)
  }
  const [, major, minor] = /^Python (\d+)\.(\d+)/.exec(said) ?? []
  const fits = Number(major) === OLDEST_PYTHON[0] && Number(minor) >= OLDEST_PYTHON[1]
  return fits ? ok(said) : warn(`${said}: \`python\` tasks need ${OLDEST_PYTHON.join(".")} or newer`)
}

const docker: Look = async ({ env }) => {
  const [{ Engine }, { engineAddress }] = await Promise.all([import("./docker/engine.ts"), import("./docker/address.ts")])
  const address = engineAddress(env, existsSync)
  if (!env["DOCKER_HOST"] && !existsSync(address.socketPath ?? "")) {
    return none("no socket of Docker or Podman at the usual places, and DOCKER_HOST is not set")
  }
  const engine = new Engine(address)
  try {
    const { Version = "?" } = (await engine.call("GET", "/version", { timeoutMs: LOOK_MS })) as { Version?: string }
    await engine.connect()
    return ok(`version ${Version} at ${address.shown}`)
  } finally {
    engine.close()
  }
}

const kubernetes: Look = async ({ env, kubeconfig }) => {
  const usual = join(env["HOME"] ?? "/", ".kube", "config")
  if (!kubeconfig && !env["KUBECONFIG"] && env["KUBERNETES_SERVICE_HOST"] === undefined && !existsSync(usual)) {
    return none("no cluster is known: KUBECONFIG is not set, and Ork does not run in one")
  }
  const { Cluster } = await import("./kubernetes/cluster.ts")
  const cluster = new Cluster({ kubeconfig, namespace: "", env })
  try {
    const signal = AbortSignal.timeout(LOOK_MS)
    const { gitVersion = "?" } = await cluster.call<{ gitVersion?: string }>("GET", "/version", { signal })
    return ok(`${gitVersion}, namespace ${cluster.namespace}`)
  } finally {
    cluster.close()
  }
}

const slurm: Look = async ({ env, slurmCommand }) => {
  const { CommandMissing, SlurmCli } = await import("./slurm/cli.ts")
  const cli = new SlurmCli(slurmCommand, env, LOOK_MS)
  const version = await cli.call("sbatch", ["--version"]).catch((error: unknown) => error as Error)
  if (version instanceof Error) {
    const missing = slurmCommand === "" && version instanceof CommandMissing
    return missing ? none("no sbatch in PATH, which `slurm` tasks need") : warn(version.message)
  }
  await cli.call("scontrol", ["ping"])
  return ok(`${version.trim()}, and its controller answers`)
}

const LOOKS: { [name: string]: Look } = { python, docker, kubernetes, slurm }

/** All at once: none waits for another. */
export const survey = (surroundings: Surroundings): Promise<Finding[]> =>
  Promise.all(
    Object.entries(LOOKS).map(async ([name, look]) => ({
      name,
      ...(await within(surroundings.clock, look(surroundings)).catch((error: unknown) => warn(messageOf(error)))),
    })),
  )

const within = <T>(clock: Clock, work: Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    const cancel = clock.after(LOOK_MS, () => reject(new Error(`no answer within ${LOOK_MS / 1000} s`)))
    work.then(resolve, reject).finally(cancel)
  })

const ok = (detail: string) => ({ state: "ok", detail }) as const
const warn = (detail: string) => ({ state: "warn", detail }) as const
const none = (detail: string) => ({ state: "none", detail }) as const

const run = async (program: string, args: string[], env: Surroundings["env"]): Promise<string> => {
  const { stdout, stderr } = await promisify(execFile)(program, args, { env, timeout: LOOK_MS, killSignal: "SIGKILL" })
  return (stdout || stderr).trim()
}
