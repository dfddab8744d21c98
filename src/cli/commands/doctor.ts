// `ork doctor`: what this machine can do and whether the stores work. Exit 1 if something does not.

import { platform, release } from "node:os"
import { messageOf } from "../../core/model/error-message.ts"
import type { Context, Inspection } from "../target/backends.ts"
import { serverAddress, type ServerFlags } from "../target/connect.ts"
import { printJson, printSpans } from "../terminal/output.ts"
import { loadConfig, type StoreFlags } from "../target/settings.ts"
import { padEnd } from "../terminal/text.ts"
import { type Config, withoutPassword } from "../../config.ts"
import { Client } from "../../protocol/client/client.ts"

export interface DoctorOptions extends StoreFlags, ServerFlags {
  json?: boolean
}

interface Check {
  name: string
  /** warn: works, with less than everything that Ork promises. none: not here, and only tasks that name it need it. */
  state: "ok" | "warn" | "none" | "fail"
  detail: string
}

export const doctor = async (context: Context, options: DoctorOptions): Promise<number> => {
  const { databaseUrl, objectStore, url, apiKey } = options
  const config = await loadConfig(context, { databaseUrl, objectStore, url, apiKey })
  const inspection = await context.backends.inspect(config)
  const checks: Check[] = [
    { name: "ork", state: "ok", detail: `version ${context.version()}` },
    nodeCheck(),
    platformCheck(),
    { name: "sqlite", state: "ok", detail: inspection.sqlite },
    ...spawnChecks(inspection.spawn),
    ...inspection.surroundings,
    await databaseCheck(context, config),
    await objectsCheck(context, config),
    ...(await serverChecks(context, config)),
    { name: "concurrency", state: "ok", detail: `${config.concurrency} tasks at once` },
  ]
  if (options.json === true) printJson(context, checks)
  else {
    const STYLES = { ok: "green", warn: "yellow", none: "dim", fail: "red" } as const
    printSpans(
      context,
      checks.map(({ name, state, detail }) => [[padEnd(state, 4), STYLES[state]], " ", padEnd(name, 12), detail]),
    )
  }
  return checks.some(({ state }) => state === "fail") ? 1 : 0
}

/** Before 22.15 it has no way to be told what `ork` means in the files of tasks. */
const nodeCheck = (): Check => {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number)
  const detail = `${process.version} at ${process.execPath}`
  if (major > 22 || minor >= 15) return { name: "node", state: "ok", detail }
  return { name: "node", state: "warn", detail: `${detail}: \`node\` tasks need 22.15 or newer` }
}

const platformCheck = (): Check => {
  const name = "platform"
  const detail = `${platform()} ${release()}`
  if (platform() === "linux") return { name, state: "ok", detail: `${detail}: every promise holds` }
  return {
    name,
    state: "warn",
    detail: `${detail}: tasks end by their process group only; a process that leaves its group can survive its task`,
  }
}

const ISOLATION: Readonly<Record<string, string>> = {
  namespace: "the kernel ends all processes of a task with it (pid namespace)",
  reaper: "the helper ends all processes of a task with it (subreaper)",
  environ: "processes of a task are found by a variable in their environment; one that clears it can survive",
}

const spawnChecks = (spawn: Inspection["spawn"]): Check[] => {
  if ("problem" in spawn) return [{ name: "spawn", state: "fail", detail: spawn.problem }]
  const { helper, reason, isolation, cgroups } = spawn
  return [
    {
      name: "spawn",
      state: reason === null ? "ok" : "warn",
      detail: `${helper} helper${reason === null ? "" : `: no compiled one, as ${reason}`}`,
    },
    {
      name: "isolation",
      state: isolation === "environ" ? "warn" : "ok",
      detail: `${isolation}: ${ISOLATION[isolation] ?? ""}`,
    },
    {
      name: "cgroups",
      state: cgroups === "none" ? "warn" : "ok",
      detail: cgroups === "none" ? "none: limits of `resources` are set as rlimits" : cgroups,
    },
  ]
}

const databaseCheck = async (context: Context, config: Config): Promise<Check> => {
  const name = "database"
  const where = withoutPassword(config.databaseUrl)
  try {
    const store = await context.backends.openStore(config, { create: false })
    if (store === null) return { name, state: "ok", detail: `${where}: not there yet, made by the first run` }
    try {
      await store.listRuns({ limit: 1 })
      return { name, state: "ok", detail: where }
    } finally {
      await store.close()
    }
  } catch (error) {
    return { name, state: "fail", detail: `${where}: ${messageOf(error)}` }
  }
}

const objectsCheck = async (context: Context, config: Config): Promise<Check> => {
  try {
    await (await context.backends.openObjects(config)).check()
    return { name: "objects", state: "ok", detail: config.objectStore }
  } catch (error) {
    return { name: "objects", state: "fail", detail: messageOf(error) }
  }
}

/** A server that nobody named and that does not run is no fault. */
const serverChecks = async (context: Context, config: Config): Promise<Check[]> => {
  const { url, key, found } = await serverAddress(context, config)
  if (!found) return [{ name: "server", state: "ok", detail: "none of this folder; `ork serve` starts one" }]
  const client = new Client({ url, key, retries: 0 })
  try {
    const { version } = await client.health()
    const server: Check = { name: "server", state: "ok", detail: `${url}: version ${version}` }
    return [server, await keyCheck(client, key)]
  } catch (error) {
    return [{ name: "server", state: "fail", detail: messageOf(error) }]
  }
}

const keyCheck = async (client: Client, key: string | null): Promise<Check> => {
  const name = "key"
  if (key === null) return { name, state: "fail", detail: "there is none; give one with --api-key or ORK_API_KEY" }
  try {
    await client.listWorkflows({ limit: 1 })
    return { name, state: "ok", detail: "the server takes it" }
  } catch (error) {
    return { name, state: "fail", detail: messageOf(error) }
  }
}
