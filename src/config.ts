// Every setting and its default, in one table. Flags win over ORK_* variables, those over ork.yaml, that over the default.
// Pure: the caller hands in the environment and the parsed file. Used by the command line, and by main.ts to open backends.

import { type AllowedHost, HTTP_ALLOW_HINT, parseHttpAllow } from "./core/settings/http-allow.ts"
import { parseQueues, QUEUES_HINT, type QueueConfig } from "./core/settings/queue-config.ts"
import { nearest } from "./core/model/nearest.ts"
import { OBJECT_ADDRESS_HINT, parseObjectAddress } from "./core/settings/object-address.ts"
import { parseSecretUris, SECRET_URIS_HINT, type SecretUris } from "./core/settings/secret-uris.ts"
import { DURATION_HINT, MEMORY_HINT, parseDuration, parseMemory } from "./core/model/quantities.ts"
import { parseWorkerProfiles, PROFILES_HINT, type WorkerProfiles } from "./core/settings/worker-profiles.ts"

/** What defaults may depend on. */
export interface Machine {
  cores: number
}

interface Setting<T> {
  /** Name in ork.yaml; the variable is ORK_ and the same in capitals. */
  key: string
  about: string
  expected: string
  /** Gives null for what it does not understand. Variables arrive as text. */
  parse(value: unknown): T | null
  default(machine: Machine, dataDir: string): T
}

const text = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null)

const count =
  (min: number, max: number) =>
  (value: unknown): number | null => {
    const number = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value
    return typeof number === "number" && Number.isInteger(number) && number >= min && number <= max ? number : null
  }

const scheme =
  (...schemes: string[]) =>
  (value: unknown): string | null => {
    const address = text(value)
    return address !== null && schemes.some((s) => address.startsWith(s) && address.length > s.length) ? address : null
  }

const oneOf =
  (...words: string[]) =>
  (value: unknown): string | null =>
    typeof value === "string" && words.includes(value) ? value : null

const httpAddress = (value: unknown): string | null => {
  const address = text(value)
  return address !== null && /^https?:\/\//.test(address) && URL.canParse(address) ? address.replace(/\/+$/, "") : null
}

/** `8001`, `host:8001` and `https://host/worker` as addresses. */
const parseWorkers = (value: unknown): string[] | null => {
  const given = typeof value === "string" ? value.split(",") : Array.isArray(value) ? value.map(String) : [String(value)]
  const found = given.map((word) => workerAddress(word.trim()))
  return found.some((address) => address === null) ? null : (found as string[])
}

const workerAddress = (word: string): string | null => {
  const address = /^\d{1,5}$/.test(word) ? `http://127.0.0.1:${word}` : /^[^/:]+:\d{1,5}$/.test(word) ? `http://${word}` : word
  return httpAddress(address)
}

const MIN_KEY = 16
const MIB = 2 ** 20

export const SETTINGS = {
  dataDir: {
    key: "data_dir",
    about: "folder for the database, objects and run folders",
    expected: "a folder",
    parse: text,
    default: () => ".ork",
  } satisfies Setting<string>,
  databaseUrl: {
    key: "database_url",
    about: "where runs are kept",
    expected: "sqlite:FILE or postgres://…",
    parse: scheme("sqlite:", "postgres://", "postgresql://"),
    default: (_machine: Machine, dataDir: string) => `sqlite:${dataDir}/ork.db`,
  } satisfies Setting<string>,
  objectStore: {
    key: "object_store",
    about: "where logs and large outputs are kept",
    expected: OBJECT_ADDRESS_HINT,
    parse: (value: unknown) => {
      const address = text(value)
      return address === null || parseObjectAddress(address) === null ? null : address
    },
    default: (_machine: Machine, dataDir: string) => `file:${dataDir}/objects`,
  } satisfies Setting<string>,
  concurrency: {
    key: "concurrency",
    about: "tasks at once on this machine",
    expected: "a whole number from 1 to 10000",
    parse: count(1, 10_000),
    default: (machine: Machine) => Math.max(16, 4 * machine.cores),
  } satisfies Setting<number>,
  remoteConcurrency: {
    key: "remote_concurrency",
    about: "tasks at once that one server runs elsewhere (kubernetes, slurm, cloudrun)",
    expected: "a whole number from 1 to 100000",
    parse: count(1, 100_000),
    default: () => 1000,
  } satisfies Setting<number>,
  slurmDir: {
    key: "slurm_dir",
    about: "folder for the files of slurm tasks, which all nodes of the cluster must see under this path",
    expected: "a folder",
    parse: text,
    default: (_machine: Machine, dataDir: string) => `${dataDir}/slurm`,
  } satisfies Setting<string>,
  slurmCommand: {
    key: "slurm_command",
    about: "words in front of the commands of Slurm, such as `ssh login1`",
    expected: "a command",
    parse: text,
    default: () => "",
  } satisfies Setting<string>,
  kubeconfig: {
    key: "kubeconfig",
    about:
      "file that says how to reach the cluster of kubernetes tasks; without it KUBECONFIG, ~/.kube/config, or the cluster that Ork runs in",
    expected: "a file",
    parse: text,
    /** Not said. */
    default: () => "",
  } satisfies Setting<string>,
  kubernetesNamespace: {
    key: "kubernetes_namespace",
    about: "namespace of kubernetes tasks that name none; without it that of the kubeconfig",
    expected: "a namespace",
    parse: text,
    /** Not said. */
    default: () => "",
  } satisfies Setting<string>,
  kubernetesTtlMs: {
    key: "kubernetes_ttl",
    about: "how long the Job of a kubernetes task stays after its end",
    expected: DURATION_HINT,
    parse: parseDuration,
    default: () => 600_000,
  } satisfies Setting<number>,
  cloudrunProject: {
    key: "cloudrun_project",
    about: "Google Cloud project of the jobs of cloudrun tasks that name none",
    expected: "a project",
    parse: text,
    /** Not said. */
    default: () => "",
  } satisfies Setting<string>,
  cloudrunRegion: {
    key: "cloudrun_region",
    about: "region of the jobs of cloudrun tasks that name none, such as europe-west1",
    expected: "a region",
    parse: text,
    /** Not said. */
    default: () => "",
  } satisfies Setting<string>,
  cloudrunEndpoint: {
    key: "cloudrun_endpoint",
    about: "address of Cloud Run's API where it is not Google's public one; without TLS it is asked without credentials",
    expected: "http://… or https://…",
    parse: httpAddress,
    /** Not said. */
    default: () => "",
  } satisfies Setting<string>,
  cloudrunLoggingEndpoint: {
    key: "cloudrun_logging_endpoint",
    about: "address of Cloud Logging's API where it is not Google's public one; without TLS it is asked without credentials",
    expected: "http://… or https://…",
    parse: httpAddress,
    /** Not said. */
    default: () => "",
  } satisfies Setting<string>,
  workers: {
    key: "workers",
    about: "workers that process tasks are pushed to: ports, HOST:PORT or addresses, with commas between",
    expected: "ports, HOST:PORT or http://… addresses, with commas between",
    parse: parseWorkers,
    default: (): string[] => [],
  } satisfies Setting<string[]>,
  maxFanout: {
    key: "max_fanout",
    about: "most instances of one task",
    expected: "a whole number from 1 to 10000000",
    parse: count(1, 10_000_000),
    default: () => 100_000,
  } satisfies Setting<number>,
  maxOutputBytes: {
    key: "max_output",
    about: "largest output of one task",
    expected: MEMORY_HINT,
    parse: (value: unknown) => parseMemory(typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value),
    default: () => 64 * MIB,
  } satisfies Setting<number>,
  graceMs: {
    key: "grace",
    about: "time between SIGTERM and SIGKILL when a task is stopped",
    expected: DURATION_HINT,
    parse: parseDuration,
    default: () => 10_000,
  } satisfies Setting<number>,
  functionTasks: {
    key: "function_tasks",
    about: "a worker process of functions is replaced after so many tasks",
    expected: "a whole number from 1 to 1000000",
    parse: count(1, 1_000_000),
    default: () => 10_000,
  } satisfies Setting<number>,
  functionIdleMs: {
    key: "function_idle",
    about: "a worker process of functions ends after so long without a task",
    expected: DURATION_HINT,
    parse: parseDuration,
    default: () => 60_000,
  } satisfies Setting<number>,
  host: {
    key: "host",
    about: "address that a server listens at",
    expected: "a host name or address",
    parse: text,
    default: () => "127.0.0.1",
  } satisfies Setting<string>,
  port: {
    key: "port",
    about: "port that a server listens at; 0 takes a free one",
    expected: "a whole number from 0 to 65535",
    parse: count(0, 65_535),
    default: () => 4000,
  } satisfies Setting<number>,
  url: {
    key: "url",
    about: "the server that commands speak to",
    expected: "http://… or https://…",
    parse: httpAddress,
    /** Not said. */
    default: () => "",
  } satisfies Setting<string>,
  apiKey: {
    key: "api_key",
    about: "the server's own admin key, and the key that commands use",
    expected: `a key of ${MIN_KEY} characters or more`,
    parse: (value: unknown) => (typeof value === "string" && value.length >= MIN_KEY ? value : null),
    /** Not said: `.ork/admin.key`. */
    default: () => "",
  } satisfies Setting<string>,
  retentionDays: {
    key: "retention_days",
    about: "days that a server keeps ended runs; 0 keeps them for ever",
    expected: "a whole number from 0 to 36500",
    parse: count(0, 36_500),
    default: () => 0,
  } satisfies Setting<number>,
  retentionRuns: {
    key: "retention_runs",
    about: "ended runs that a server keeps of each workflow; 0 keeps all",
    expected: "a whole number from 0 to 100000000",
    parse: count(0, 100_000_000),
    default: () => 0,
  } satisfies Setting<number>,
  log: {
    key: "log",
    about: "what a server tells in its log",
    expected: "debug, info, warn, error or silent",
    parse: oneOf("debug", "info", "warn", "error", "silent"),
    default: () => "info",
  } satisfies Setting<string>,
  queues: {
    key: "queues",
    about: "concurrency, rate limit and pause of queues, applied when a server starts",
    expected: QUEUES_HINT,
    parse: parseQueues,
    default: (): QueueConfig => ({}),
  } satisfies Setting<QueueConfig>,
  handlers: {
    key: "handlers",
    about: "files of handlers and registered functions that servers, workers and runs of this folder have",
    expected: "files, with commas between",
    parse: (value: unknown) => {
      const files = typeof value === "string" ? value.split(",") : value
      const given = Array.isArray(files) && files.every((file) => typeof file === "string" && file.trim() !== "")
      return given ? (files as string[]).map((file) => file.trim()) : null
    },
    default: (): string[] => [],
  } satisfies Setting<string[]>,
  workerProfiles: {
    key: "worker_profiles",
    about: "where tasks run that name a profile as `worker`: queue, labels, executor and its options",
    expected: PROFILES_HINT,
    parse: parseWorkerProfiles,
    default: (): WorkerProfiles => ({}),
  } satisfies Setting<WorkerProfiles>,
  httpAllow: {
    key: "http_allow",
    about: "hosts, addresses and ranges that requests may reach though they are not public",
    expected: HTTP_ALLOW_HINT,
    parse: parseHttpAllow,
    default: (): AllowedHost[] => [],
  } satisfies Setting<AllowedHost[]>,
  secretsDir: {
    key: "secrets_dir",
    about: "folder with a file for each secret",
    expected: "a folder",
    parse: text,
    /** Not said. */
    default: () => "",
  } satisfies Setting<string>,
  secrets: {
    key: "secrets",
    about: "secrets that a manager keeps, by name",
    expected: SECRET_URIS_HINT,
    parse: parseSecretUris,
    default: (): SecretUris => ({}),
  } satisfies Setting<SecretUris>,
} as const

type Name = keyof typeof SETTINGS
type Value = string | number | string[] | QueueConfig | WorkerProfiles | AllowedHost[] | SecretUris

export type Config = { [N in Name]: ReturnType<(typeof SETTINGS)[N]["default"]> }

const variableOf = (name: Name): string => `ORK_${SETTINGS[name].key.toUpperCase()}`

export interface Sources {
  /** Values given on the command line, by setting. */
  flags: { [N in Name]?: string | undefined }
  env: { [name: string]: string | undefined }
  /** The content of ork.yaml; null: there is none. */
  file: { [key: string]: unknown } | null
  machine: Machine
}

export type Resolved = { config: Config } | { problems: string[] }

const flagOf = (name: Name): string => `--${SETTINGS[name].key.replaceAll("_", "-")}`

/** The value that counts and where it was found; an empty variable counts as not set. */
const given = (name: Name, { flags, env, file }: Sources): { value: unknown; from: string } | null => {
  if (flags[name] !== undefined) return { value: flags[name], from: flagOf(name) }
  const variable = variableOf(name)
  if (env[variable] !== undefined && env[variable] !== "") return { value: env[variable], from: variable }
  const { key } = SETTINGS[name]
  if (file !== null && Object.hasOwn(file, key)) return { value: file[key], from: `ork.yaml: ${key}` }
  return null
}

/** An address as it may be shown. */
export const withoutPassword = (address: string): string => address.replace(/:\/\/[^@/]*@/, "://…@")

export const resolveConfig = (sources: Sources): Resolved => {
  const problems: string[] = []
  const names = Object.keys(SETTINGS) as Name[]
  const known = names.map((name) => SETTINGS[name].key)
  for (const key of Object.keys(sources.file ?? {})) {
    if (known.includes(key)) continue
    const near = nearest(key, known)
    problems.push(
      `ork.yaml: unknown setting ${key}${near === undefined ? `; known are ${known.join(", ")}` : `; did you mean ${near}?`}`,
    )
  }
  const config: { [name: string]: Value } = {}
  for (const name of names) {
    const setting: Setting<Value> = SETTINGS[name]
    const found = given(name, sources)
    const value = found === null ? null : setting.parse(found.value)
    if (found !== null && value === null) {
      const shown = name === "apiKey" ? "what is given" : withoutPassword(JSON.stringify(found.value))
      problems.push(`${found.from}: ${shown} is not ${setting.expected}`)
    }
    config[name] = value ?? setting.default(sources.machine, typeof config["dataDir"] === "string" ? config["dataDir"] : "")
  }
  return problems.length > 0 ? { problems } : { config: config as Config }
}
