// Probes for `ork doctor`: the interpreters, container engine and clusters that executors can use here. Each probe has a time
// limit. A missing one is not an error, because only tasks that name it need it.

import { execFile } from "node:child_process"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { messageOf } from "../core/values/error-message.ts"
import type { Clock } from "../core/model/ports.ts"
import { explainMissing } from "../core/settings/optional-packages.ts"

export interface ProbeResult {
  name: string
  /** none: missing. warn: present, but not usable. */
  state: "ok" | "warn" | "none"
  detail: string
}

export interface ProbeOptions {
  env: { [name: string]: string | undefined }
  kubeconfig: string
  slurmCommand: string
  clock: Clock
}

const PROBE_MS = 5000
const OLDEST_PYTHON = [3, 9] as const

type Probe = (options: ProbeOptions) => Promise<Omit<ProbeResult, "name">>

const python: Probe = async ({ env }) => {
  const version = await run("python3", ["--version"], env).catch((error: unknown) => error as NodeJS.ErrnoException)
  if (version instanceof Error) {
    if (version.code === "ENOENT") return none("no python3 in PATH, which `python` tasks need")
    return warn(`python3 does not start: ${version.message.trim()}`)
  }
  const [, major, minor] = /^Python (\d+)\.(\d+)/.exec(version) ?? []
  const supported = Number(major) === OLDEST_PYTHON[0] && Number(minor) >= OLDEST_PYTHON[1]
  return supported ? ok(version) : warn(`${version}: \`python\` tasks need ${OLDEST_PYTHON.join(".")} or newer`)
}

const docker: Probe = async ({ env }) => {
  const [{ DockerEngine }, { engineAddress }] = await Promise.all([import("./docker/engine.ts"), import("./docker/address.ts")])
  const address = engineAddress(env, existsSync)
  if (!env["DOCKER_HOST"] && !existsSync(address.socketPath ?? "")) {
    return none("no socket of Docker or Podman at the default paths, and DOCKER_HOST is not set")
  }
  const engine = new DockerEngine(address)
  try {
    const { Version = "?" } = (await engine.call("GET", "/version", { timeoutMs: PROBE_MS })) as { Version?: string }
    await engine.connect()
    return ok(`version ${Version} at ${address.shown}`)
  } finally {
    engine.close()
  }
}

const kubernetes: Probe = async ({ env, kubeconfig, clock }) => {
  const defaultPath = join(env["HOME"] ?? "/", ".kube", "config")
  if (!kubeconfig && !env["KUBECONFIG"] && env["KUBERNETES_SERVICE_HOST"] === undefined && !existsSync(defaultPath)) {
    return none("no cluster is configured: KUBECONFIG is not set, and Ork does not run in a cluster")
  }
  const { Cluster } = await import("./kubernetes/cluster.ts").catch(explainMissing("the executor kubernetes"))
  const cluster = new Cluster({ kubeconfig, namespace: "", env, clock })
  try {
    const signal = AbortSignal.timeout(PROBE_MS)
    const { gitVersion = "?" } = await cluster.call<{ gitVersion?: string }>("GET", "/version", { signal })
    return ok(`${gitVersion}, namespace ${cluster.namespace}`)
  } finally {
    cluster.close()
  }
}

const slurm: Probe = async ({ env, slurmCommand }) => {
  const { CommandMissing, SlurmCli } = await import("./slurm/cli.ts")
  const cli = new SlurmCli(slurmCommand, env, PROBE_MS)
  const version = await cli.call("sbatch", ["--version"]).catch((error: unknown) => error as Error)
  if (version instanceof Error) {
    const missing = slurmCommand === "" && version instanceof CommandMissing
    return missing ? none("no sbatch in PATH, which `slurm` tasks need") : warn(version.message)
  }
  await cli.call("scontrol", ["ping"])
  return ok(`${version.trim()}, and its controller responds`)
}

const PROBES: { [name: string]: Probe } = { python, docker, kubernetes, slurm }

/** Runs all probes concurrently. */
export const runProbes = (options: ProbeOptions): Promise<ProbeResult[]> =>
  Promise.all(
    Object.entries(PROBES).map(async ([name, probe]) => ({
      name,
      ...(await limited(options.clock, probe(options)).catch((error: unknown) => warn(messageOf(error)))),
    })),
  )

const limited = <T>(clock: Clock, probe: Promise<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    const cancel = clock.after(PROBE_MS, () => reject(new Error(`no response within ${PROBE_MS / 1000} s`)))
    probe.then(resolve, reject).finally(cancel)
  })

const ok = (detail: string) => ({ state: "ok", detail }) as const
const warn = (detail: string) => ({ state: "warn", detail }) as const
const none = (detail: string) => ({ state: "none", detail }) as const

const run = async (program: string, args: string[], env: ProbeOptions["env"]): Promise<string> => {
  const { stdout, stderr } = await promisify(execFile)(program, args, { env, timeout: PROBE_MS, killSignal: "SIGKILL" })
  return (stdout || stderr).trim()
}
