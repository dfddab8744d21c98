// All settings with their defaults. Flags override ORK_* variables, which override ork.yaml, which overrides the defaults. Pure: the caller
// passes the environment and the parsed file.

import {
  API_KEY,
  BOOLEAN,
  DATABASE,
  DURATION,
  durationFrom,
  FILES,
  FOLDER,
  HTTP_ADDRESS,
  integer,
  LOG_BYTES,
  LOG_LEVEL,
  MEMORY,
  OBJECT_STORE,
  SANDBOX,
  text,
  WORKER_ADDRESSES,
  type ValueType,
} from "./config-values.ts"
import { type AllowedHost, HTTP_ALLOW_HINT, parseHttpAllow } from "./core/settings/http-allow.ts"
import { parseQueues, QUEUES_HINT, type QueueConfig } from "./core/settings/queue-config.ts"
import { MIN_SERVER_LEASE_MS, MIN_WORKER_LEASE_MS, SERVER_LEASE_MS, WORKER_LEASE_MS } from "./core/settings/leases.ts"
import { nearest } from "./core/values/nearest.ts"
import { TASK_VARIABLES, VARIABLE_PREFIXES } from "./core/model/task-variables.ts"
import { CONNECTIONS_HINT, type Connections, parseConnections } from "./core/settings/connections.ts"
import { parsePolicy, type Policy, POLICY_HINT } from "./core/settings/policy.ts"
import { HOSTS_HINT, parseHosts, parseProxies, PROXIES_HINT } from "./core/settings/network.ts"
import { OIDC_HINT, type OidcSettings, parseOidc } from "./core/settings/oidc.ts"
import { parseSmtp, SMTP_HINT, type SmtpSettings } from "./core/settings/smtp.ts"
import { parseSecretUris, SECRET_URIS_HINT, type SecretUris } from "./core/settings/secret-uris.ts"
import { DEFAULT_TASK_LIMITS, parseTaskLimits, TASK_LIMITS_HINT, type TaskLimits } from "./core/settings/task-limits.ts"
import { parseWorkerProfiles, PROFILES_HINT, type WorkerProfiles } from "./core/settings/worker-profiles.ts"

export interface Machine {
  cores: number
}

/** Values that defaults may depend on. */
interface DefaultContext {
  machine: Machine
  dataDir: string
}

interface Setting<T> extends ValueType<T> {
  /** Name in ork.yaml. The variable is ORK_ and this name in capitals. */
  key: string
  about: string
  default(context: DefaultContext): T
}

const setting = <T>(
  key: string,
  about: string,
  type: ValueType<T>,
  defaultValue: (context: DefaultContext) => T,
): Setting<T> => ({ key, about, ...type, default: defaultValue })

// -- settings ----------------------------------------------------------------------------------------------------------------------

const MIB = 2 ** 20

/** Returns the default of settings that are optional. */
const unset = (): string => ""

export const SETTINGS = {
  dataDir: setting("data_dir", "folder for the database, objects and run folders", FOLDER, () => ".ork"),
  databaseUrl: setting("database_url", "where runs are kept", DATABASE, ({ dataDir }) => `sqlite:${dataDir}/ork.db`),
  objectStore: setting(
    "object_store",
    "where logs and large outputs are kept",
    OBJECT_STORE,
    ({ dataDir }) => `file:${dataDir}/objects`,
  ),
  concurrency: setting(
    "concurrency",
    "concurrent tasks on this machine; by default 4 per core, and up to 64 per core while CPU and memory are not under pressure",
    integer(1, 10_000),
    ({ machine }) => 4 * machine.cores,
  ),
  remoteConcurrency: setting(
    "remote_concurrency",
    "concurrent tasks that one server runs elsewhere (kubernetes, slurm, cloudrun)",
    integer(1, 100_000),
    () => 1000,
  ),
  slurmDir: setting(
    "slurm_dir",
    "folder for the files of slurm tasks, which all nodes of the cluster must see under this path",
    FOLDER,
    ({ dataDir }) => `${dataDir}/slurm`,
  ),
  slurmCommand: setting("slurm_command", "prefix of the commands of Slurm, such as `ssh login1`", text("a command"), unset),
  kubeconfig: setting(
    "kubeconfig",
    "kubeconfig file of kubernetes tasks; by default KUBECONFIG, ~/.kube/config, or the cluster that Ork runs in",
    text("a file"),
    unset,
  ),
  kubernetesNamespace: setting(
    "kubernetes_namespace",
    "default namespace of kubernetes tasks; without it, the namespace of the kubeconfig",
    text("a namespace"),
    unset,
  ),
  kubernetesTtlMs: setting(
    "kubernetes_ttl",
    "time that the Job of a kubernetes task is kept after its end",
    DURATION,
    () => 600_000,
  ),
  cloudrunProject: setting("cloudrun_project", "default Google Cloud project of cloudrun tasks", text("a project"), unset),
  cloudrunRegion: setting("cloudrun_region", "default region of cloudrun tasks, such as europe-west1", text("a region"), unset),
  cloudrunEndpoint: setting(
    "cloudrun_endpoint",
    "address of the Cloud Run API, if it is not the public one; without TLS, requests have no credentials",
    HTTP_ADDRESS,
    unset,
  ),
  cloudrunLoggingEndpoint: setting(
    "cloudrun_logging_endpoint",
    "address of the Cloud Logging API, if it is not the public one; without TLS, requests have no credentials",
    HTTP_ADDRESS,
    unset,
  ),
  workers: setting(
    "workers",
    "workers that process tasks are pushed to: ports, HOST:PORT or addresses, separated by commas",
    WORKER_ADDRESSES,
    () => [],
  ),
  maxFanout: setting("max_fanout", "maximum number of instances of a task", integer(1, 10_000_000), () => 100_000),
  maxOutputBytes: setting("max_output", "maximum size of a task's output", MEMORY, () => 64 * MIB),
  maxArtifactBytes: setting("max_artifacts", "maximum size of all artifacts of an attempt together", MEMORY, () => 1024 * MIB),
  maxLogBytes: setting("max_log", "maximum size of an attempt's log; the rest is dropped", LOG_BYTES, () => 1024 * MIB),
  graceMs: setting("grace", "time between SIGTERM and SIGKILL when a task is stopped", DURATION, () => 10_000),
  serverLeaseMs: setting(
    "server_lease",
    "time without a renewal after which others take over the work of a server or `ork run` on Postgres; the same on all servers",
    durationFrom(MIN_SERVER_LEASE_MS),
    () => SERVER_LEASE_MS,
  ),
  workerLeaseMs: setting(
    "worker_lease",
    "time without a renewal after which others take over the work of a worker; the same on all servers",
    durationFrom(MIN_WORKER_LEASE_MS),
    () => WORKER_LEASE_MS,
  ),
  sandbox: setting(
    "sandbox",
    "how tasks are confined: `auto` as far as the kernel allows it, `required` not at all without every protection, `off`",
    SANDBOX,
    () => "auto",
  ),
  taskUser: setting(
    "task_user",
    "user of the tasks of a server or worker that runs as root; by default `ork-task` if it exists, else `nobody`",
    text("a user"),
    unset,
  ),
  taskLimits: setting<TaskLimits>(
    "task_limits",
    "limits of the processes of tasks: processes, memory, files",
    { expected: TASK_LIMITS_HINT, parse: parseTaskLimits },
    () => DEFAULT_TASK_LIMITS,
  ),
  functionTasks: setting(
    "function_tasks",
    "number of tasks after which a worker process of functions is replaced",
    integer(1, 1_000_000),
    () => 10_000,
  ),
  functionIdleMs: setting(
    "function_idle",
    "time without a task after which a worker process of functions ends",
    DURATION,
    () => 60_000,
  ),
  host: setting("host", "address that a server listens on", text("a host name or address"), () => "127.0.0.1"),
  port: setting("port", "port that a server listens on; 0 selects a free port", integer(0, 65_535), () => 4000),
  tlsCert: setting("tls_cert", "file with the server's TLS certificate and its chain, in PEM", text("a file"), unset),
  tlsKey: setting("tls_key", "file with the private key of the certificate, in PEM", text("a file"), unset),
  insecureHttp: setting(
    "insecure_http",
    "listen without TLS on an address that other machines reach: a proxy or a private network protects the connections",
    BOOLEAN,
    () => false,
  ),
  trustProxy: setting<boolean | string[]>(
    "trust_proxy",
    "proxies whose X-Forwarded-For and X-Forwarded-Proto a server believes: addresses and ranges, separated by commas, or true",
    { expected: PROXIES_HINT, parse: parseProxies },
    () => false,
  ),
  allowedHosts: setting(
    "allowed_hosts",
    "further names of the server that requests may have in their Host header",
    { expected: HOSTS_HINT, parse: parseHosts },
    () => [],
  ),
  url: setting("url", "address of the server that commands use, and that the server shows to people", HTTP_ADDRESS, unset),
  apiKey: setting(
    "api_key",
    "admin key of the server, and the key that commands use; by default the key in `.ork/admin.key`",
    API_KEY,
    unset,
  ),
  pushKey: setting(
    "push_key",
    "key that a server and its push workers share, which gives no access to the server; by default derived from the admin key",
    API_KEY,
    unset,
  ),
  retentionDays: setting(
    "retention_days",
    "days that a server keeps finished runs and jobs, and audit entries; 0 keeps them forever",
    integer(0, 36_500),
    () => 0,
  ),
  retentionRuns: setting(
    "retention_runs",
    "number of finished runs that a server keeps per workflow; 0 keeps all",
    integer(0, 100_000_000),
    () => 0,
  ),
  log: setting("log", "log level of a server", LOG_LEVEL, () => "info"),
  queues: setting<QueueConfig>(
    "queues",
    "concurrency, rate limit and pause of queues, applied when a server starts",
    { expected: QUEUES_HINT, parse: parseQueues },
    () => ({}),
  ),
  handlers: setting(
    "handlers",
    "files with handlers and registered functions for servers, workers and runs in this folder",
    FILES,
    () => [],
  ),
  workerProfiles: setting<WorkerProfiles>(
    "worker_profiles",
    "where tasks run that name a profile as `worker`: queue, labels, executor and its options",
    { expected: PROFILES_HINT, parse: parseWorkerProfiles },
    () => ({}),
  ),
  httpAllow: setting<AllowedHost[]>(
    "http_allow",
    "hosts, addresses and ranges that requests may reach although they are not public",
    { expected: HTTP_ALLOW_HINT, parse: parseHttpAllow },
    () => [],
  ),
  smtp: setting<SmtpSettings | null>(
    "smtp",
    "SMTP server for notifications by e-mail, such as `smtp://ork@mail.example.com:587`; its password is the secret `SMTP_PASSWORD`",
    { expected: SMTP_HINT, parse: parseSmtp },
    () => null,
  ),
  smtpFrom: setting(
    "smtp_from",
    "sender of notifications by e-mail, such as `Ork <ork@example.com>`; by default the user of `smtp`, or `ork@` and its host",
    text("an e-mail address"),
    unset,
  ),
  oidc: setting<OidcSettings | null>(
    "oidc",
    "sign-in of users through an OpenID provider, and the roles of their groups",
    { expected: OIDC_HINT, parse: parseOidc },
    () => null,
  ),
  policy: setting<Policy | null>(
    "policy",
    "what tasks may use: executors, images, mounts, privileged, namespaces, service_accounts, run_as, hosts, sandbox, with rules for some workflows",
    { expected: POLICY_HINT, parse: parsePolicy },
    () => null,
  ),
  connections: setting<Connections>(
    "connections",
    "Postgres databases that `wait` tasks may query, by name",
    { expected: CONNECTIONS_HINT, parse: parseConnections },
    () => ({}),
  ),
  secretsDir: setting("secrets_dir", "folder with one file per secret", FOLDER, unset),
  secrets: setting<SecretUris>(
    "secrets",
    "addresses of secrets in a secret manager, by name",
    { expected: SECRET_URIS_HINT, parse: parseSecretUris },
    () => ({}),
  ),
}

type Name = keyof typeof SETTINGS

export type Config = { [N in Name]: ReturnType<(typeof SETTINGS)[N]["default"]> } & {
  /** `concurrency` if it is set; otherwise the most that Ork raises it to. */
  maxConcurrency: number
}

// -- resolution --------------------------------------------------------------------------------------------------------------------

export interface Sources {
  /** Values of the command line, by setting. */
  flags: { [N in Name]?: string | undefined }
  env: { [name: string]: string | undefined }
  /** Content of ork.yaml; null without a file. */
  file: { [key: string]: unknown } | null
  machine: Machine
}

export type Resolved = { config: Config } | { problems: string[] }

export const resolveConfig = (sources: Sources): Resolved => {
  const problems = unknownSettings(sources.file ?? {})
  const config: { [name: string]: Config[Name] } = {}
  for (const name of Object.keys(SETTINGS) as Name[]) {
    const { parse, expected, default: defaultValue }: Setting<Config[Name]> = SETTINGS[name]
    const found = findValue(name, sources)
    const value = found === null ? null : parse(found.value)
    if (found !== null && value === null) {
      const shown = name === "apiKey" || name === "pushKey" ? "the value" : withoutPassword(JSON.stringify(found.value))
      problems.push(`${found.source}: ${shown} is not ${expected}`)
    }
    // `dataDir` is the first setting; the defaults of others depend on it.
    const dataDir = typeof config["dataDir"] === "string" ? config["dataDir"] : ""
    config[name] = value ?? defaultValue({ machine: sources.machine, dataDir })
  }
  if (problems.length > 0) return { problems }
  const found = config as Omit<Config, "maxConcurrency">
  const isSet = findValue("concurrency", sources) !== null
  const maxConcurrency = isSet ? found.concurrency : 64 * sources.machine.cores
  return { config: { ...found, maxConcurrency } }
}

const variableOf = (key: string): string => `ORK_${key.toUpperCase()}`

/** Matches the value that Kubernetes and Docker give ORK_PORT in containers next to a Service named `ork`. */
const SERVICE_LINK = /^(?:tcp|udp|sctp):\/\//

/**
 * Returns the value with the highest precedence and its source; null: not set. An empty variable counts as not set, and so does
 * one of a Service.
 */
const findValue = (name: Name, { flags, env, file }: Sources): { value: unknown; source: string } | null => {
  const { key } = SETTINGS[name]
  if (flags[name] !== undefined) return { value: flags[name], source: `--${key.replaceAll("_", "-")}` }
  const variable = variableOf(key)
  const value = env[variable] ?? ""
  if (value !== "" && !SERVICE_LINK.test(value)) return { value, source: variable }
  if (file !== null && Object.hasOwn(file, key)) return { value: file[key], source: `ork.yaml: ${key}` }
  return null
}

const unknownSettings = (file: object): string[] => {
  const known = Object.values(SETTINGS).map(({ key }) => key)
  const unknown = Object.keys(file).filter((key) => !known.includes(key))
  return unknown.map((key) => {
    const near = nearest(key, known)
    const hint = near === undefined ? `known settings are ${known.join(", ")}` : `did you mean ${near}?`
    return `ork.yaml: unknown setting ${key}; ${hint}`
  })
}

/** Variables that Kubernetes and Docker set for a Service whose name begins with `ork`. */
const OF_SERVICE = /_SERVICE_(?:HOST|PORT)(?:_|$)|_PORT_\d+_(?:TCP|UDP|SCTP)(?:_|$)/

/** Returns a warning for each variable that begins with ORK_ and that nothing reads. */
export const unknownVariables = (env: Sources["env"]): string[] => {
  const known: string[] = [...Object.values(SETTINGS).map(({ key }) => variableOf(key)), ...TASK_VARIABLES]
  const isKnown = (name: string, value: string): boolean =>
    known.includes(name) ||
    VARIABLE_PREFIXES.some((prefix) => name.startsWith(prefix)) ||
    OF_SERVICE.test(name) ||
    SERVICE_LINK.test(value)
  const unknown = Object.entries(env).filter(([name, value]) => name.startsWith("ORK_") && !isKnown(name, value ?? ""))
  return unknown.map(([name]) => {
    const near = nearest(name, known)
    return `Ork does not know the variable ${name}${near === undefined ? "" : `; did you mean ${near}?`}`
  })
}

/** Replaces the user and password of an address, so that it can be shown. */
export const withoutPassword = (address: string): string => address.replace(/:\/\/[^@/]*@/, "://…@")

const SQLITE = "sqlite:"

/** Returns the file of a SQLite database; null for another database. */
export const sqliteFile = ({ databaseUrl }: Pick<Config, "databaseUrl">): string | null =>
  databaseUrl.startsWith(SQLITE) ? databaseUrl.slice(SQLITE.length) : null
