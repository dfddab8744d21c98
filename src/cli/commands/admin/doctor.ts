// `ork doctor`: shows what this machine supports, and checks the stores and the server. Exit code 1 if a check fails.

import { platform, release } from "node:os"
import type { Context, Inspection, Protections } from "../../target/context.ts"
import { keyFor, serverAddress } from "../../target/connect.ts"
import { printJson, printSpans } from "../../terminal/output.ts"
import { loadConfig } from "../../target/load-config.ts"
import type { ReaderFlags } from "../../target/reader.ts"
import type { Style } from "../../terminal/style.ts"
import { padEnd } from "../../terminal/text.ts"
import { type Config, withoutPassword } from "../../../config.ts"
import { messageOf } from "../../../core/values/error-message.ts"
import { Client } from "../../../protocol/client/client.ts"
import { SmtpMailer } from "../../../server/mailer.ts"

interface Check {
  name: string
  /** `warn`: works with a limitation. `none`: not installed, and only tasks that use it need it. */
  state: "ok" | "warn" | "none" | "fail"
  detail: string
}

const STYLES = { ok: "green", warn: "yellow", none: "dim", fail: "red" } as const satisfies Record<Check["state"], Style>

export const doctor = async (context: Context, options: ReaderFlags): Promise<number> => {
  const { databaseUrl, objectStore, url, apiKey } = options
  const config = await loadConfig(context, { databaseUrl, objectStore, url, apiKey })
  const inspection = await context.backends.inspect(config)
  const checks: Check[] = [
    { name: "ork", state: "ok", detail: `version ${context.version()}` },
    nodeCheck(),
    platformCheck(),
    { name: "sqlite", state: "ok", detail: inspection.sqlite },
    ...spawnChecks(inspection.spawn),
    ...inspection.tools,
    await databaseCheck(context, config),
    await objectsCheck(context, config),
    ...(await mailChecks(context, config)),
    ...(await serverChecks(context, config)),
    { name: "concurrency", state: "ok", detail: concurrencyText(config) },
  ]
  if (options.json === true) printJson(context, checks)
  else {
    printSpans(
      context,
      checks.map(({ name, state, detail }) => [[padEnd(state, 4), STYLES[state]], " ", padEnd(name, 12), detail]),
    )
  }
  return checks.some(({ state }) => state === "fail") ? 1 : 0
}

/** Checks the version of Node. Before 22.15 it has no hook to resolve `ork` in the files of tasks. */
const nodeCheck = (): Check => {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number)
  const detail = `${process.version} at ${process.execPath}`
  if (major > 22 || minor >= 15) return { name: "node", state: "ok", detail }
  return { name: "node", state: "warn", detail: `${detail}: \`node\` tasks need 22.15 or newer` }
}

const platformCheck = (): Check => {
  const name = "platform"
  const detail = `${platform()} ${release()}`
  if (platform() === "linux") return { name, state: "ok", detail: `${detail}: fully supported` }
  return {
    name,
    state: "warn",
    detail: `${detail}: a task is ended by its process group; a process that leaves the group can survive its task`,
  }
}

const ISOLATION: Readonly<Record<string, string>> = {
  namespace: "the kernel ends all processes of a task with it (pid namespace)",
  reaper: "the helper ends all processes of a task with it (subreaper)",
  environ: "processes of a task are found by a variable in their environment; a process that clears it can survive",
}

const spawnChecks = (spawn: Inspection["spawn"]): Check[] => {
  if ("problem" in spawn) return [{ name: "spawn", state: "fail", detail: spawn.problem }]
  const { helper, reason, isolation, cgroups, protections } = spawn
  return [
    {
      name: "spawn",
      state: reason === null ? "ok" : "warn",
      detail: `${helper} helper${reason === null ? "" : `: not the compiled one, because ${reason}`}`,
    },
    {
      name: "isolation",
      state: isolation === "environ" ? "warn" : "ok",
      detail: `${isolation}: ${ISOLATION[isolation] ?? ""}`,
    },
    {
      name: "cgroups",
      state: cgroups === "none" ? "warn" : "ok",
      detail: cgroups === "none" ? "none: limits of `resources` are enforced as rlimits" : cgroups,
    },
    ...sandboxChecks(protections),
  ]
}

/** Returns one line per protection of Ork against its tasks. */
const sandboxChecks = (protections: Protections | null): Check[] => {
  const name = "sandbox"
  if (protections === null) return [{ name, state: "warn", detail: "off: tasks can read and change what Ork can" }]
  return [
    ...protections.active.map((detail): Check => ({ name, state: "ok", detail })),
    ...protections.missing.map((detail): Check => ({ name, state: "warn", detail: `missing: ${detail}` })),
  ]
}

const databaseCheck = async (context: Context, config: Config): Promise<Check> => {
  const name = "database"
  const where = withoutPassword(config.databaseUrl)
  try {
    const store = await context.backends.openStore(config, { create: false })
    if (store === null) return { name, state: "ok", detail: `${where}: does not exist yet; the first run creates it` }
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

/** Connects to the SMTP server of the settings, if there is one, and signs in. */
const mailChecks = async (context: Context, config: Config): Promise<Check[]> => {
  const { smtp, smtpFrom } = config
  if (smtp === null) return []
  const name = "smtp"
  const where = `${smtp.host}:${smtp.port}${smtp.user === null ? "" : ` as ${smtp.user}`}`
  try {
    const secrets = await context.backends.openSecrets(config, context)
    await new SmtpMailer(smtp, smtpFrom, (secret) => secrets.find(secret)).verify()
    return [{ name, state: "ok", detail: where }]
  } catch (error) {
    return [{ name, state: "fail", detail: `${where}: ${messageOf(error)}` }]
  }
}

/** Checks the server. A missing one passes if the user named none. */
const serverChecks = async (context: Context, config: Config): Promise<Check[]> => {
  const { url, known } = await serverAddress(context, config)
  if (!known) return [{ name: "server", state: "ok", detail: "not running in this folder; `ork serve` starts one" }]
  try {
    const key = await keyFor(context, config, url)
    const client = new Client({ url, key, retries: 0 })
    const { version } = await client.health()
    const server: Check = { name: "server", state: "ok", detail: `${url}: version ${version}` }
    return [server, await keyCheck(client, key)]
  } catch (error) {
    return [{ name: "server", state: "fail", detail: messageOf(error) }]
  }
}

const keyCheck = async (client: Client, key: string | null): Promise<Check> => {
  const name = "key"
  if (key === null) return { name, state: "fail", detail: "missing; give one with --api-key or ORK_API_KEY" }
  try {
    await client.listWorkflows({ limit: 1 })
    return { name, state: "ok", detail: "the server accepts it" }
  } catch (error) {
    return { name, state: "fail", detail: messageOf(error) }
  }
}

const concurrencyText = ({ concurrency, maxConcurrency }: Config): string =>
  maxConcurrency === concurrency
    ? `${concurrency} concurrent tasks`
    : `${concurrency} concurrent tasks, up to ${maxConcurrency} while CPU and memory are not under pressure`
