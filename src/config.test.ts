import { expect, test } from "vitest"
import { type Config, resolveConfig, SETTINGS, type Sources, unknownVariables } from "./config.ts"

const sources = (given: Partial<Sources>): Sources => ({ flags: {}, env: {}, file: null, machine: { cores: 2 }, ...given })

const config = (given: Partial<Sources>): Config => {
  const resolved = resolveConfig(sources(given))
  if ("problems" in resolved) throw new Error(resolved.problems.join("\n"))
  return resolved.config
}

const problems = (given: Partial<Sources>): string[] => {
  const resolved = resolveConfig(sources(given))
  return "problems" in resolved ? resolved.problems : []
}

test("defaults apply to settings that are not set", () => {
  expect(config({})).toEqual({
    connections: {},
    dataDir: ".ork",
    databaseUrl: "sqlite:.ork/ork.db",
    objectStore: "file:.ork/objects",
    concurrency: 8,
    maxConcurrency: 128,
    remoteConcurrency: 1000,
    workers: [],
    workerProfiles: {},
    maxFanout: 100_000,
    maxOutputBytes: 64 * 1024 * 1024,
    maxArtifactBytes: 1024 * 1024 * 1024,
    maxLogBytes: 1024 * 1024 * 1024,
    graceMs: 10_000,
    serverLeaseMs: 8000,
    workerLeaseMs: 10_000,
    host: "127.0.0.1",
    tlsCert: "",
    tlsKey: "",
    insecureHttp: false,
    trustProxy: false,
    allowedHosts: [],
    oidc: null,
    smtp: null,
    smtpFrom: "",
    port: 4000,
    url: "",
    apiKey: "",
    retentionDays: 0,
    retentionRuns: 0,
    log: "info",
    queues: {},
    functionTasks: 10_000,
    functionIdleMs: 60_000,
    handlers: [],
    slurmCommand: "",
    slurmDir: ".ork/slurm",
    kubeconfig: "",
    kubernetesNamespace: "",
    kubernetesTtlMs: 600_000,
    cloudrunProject: "",
    cloudrunRegion: "",
    cloudrunEndpoint: "",
    cloudrunLoggingEndpoint: "",
    httpAllow: [],
    secretsDir: "",
    sandbox: "auto",
    policy: null,
    pushKey: "",
    taskUser: "",
    taskLimits: { processes: 16_384, memoryBytes: null, files: 65_536 },
    secrets: {},
  })
})

test("connections are addresses of Postgres databases, or secrets with them", () => {
  const connections = { dwh: "postgres://ada@db/x", other: { secret: "OTHER_URL" } }
  expect(config({ file: { connections } }).connections).toEqual({
    dwh: { url: "postgres://ada@db/x" },
    other: { secret: "OTHER_URL" },
  })
  expect(config({ env: { ORK_CONNECTIONS: JSON.stringify(connections) } }).connections).toHaveProperty("other")
  for (const wrong of [{ dwh: "mysql://db/x" }, { dwh: { password: "x" } }, { "a b": "postgres://db/x" }, "dwh"]) {
    expect(problems({ file: { connections: wrong } })).toEqual([expect.stringContaining("connections: ")])
  }
})

test("queues are read from the file, or as JSON from the variable", () => {
  const mail = { concurrency: 2, rate_limit: { limit: 10, period_seconds: 60 }, paused: false }
  const parsed = { mail: { concurrency: 2, rate: { limit: 10, periodMs: 60_000 }, paused: false } }
  expect(config({ file: { queues: { mail } } }).queues).toEqual(parsed)
  expect(config({ env: { ORK_QUEUES: JSON.stringify({ mail }) } }).queues).toEqual(parsed)
})

test.each([{ mail: { concurency: 2 } }, { mail: { concurrency: 0 } }, { "a b": {} }, { mail: { rate_limit: 5 } }, 7])(
  "rejects queues such as %j",
  (queues) => {
    const resolved = resolveConfig({ flags: {}, env: {}, file: { queues }, machine: { cores: 2 } })
    expect(resolved).toEqual({ problems: [expect.stringContaining("is not a map of queues")] })
  },
)

test.each([
  ["8001", ["http://127.0.0.1:8001"]],
  ["8001, host:8002,https://far/w/", ["http://127.0.0.1:8001", "http://host:8002", "https://far/w"]],
])("accepts %s as push workers", (given, expected) => {
  expect(config({ env: { ORK_WORKERS: given } }).workers).toEqual(expected)
})

test("the default concurrency is four per core, and grows to 64 per core unless it is set", () => {
  expect(config({ machine: { cores: 8 } })).toMatchObject({ concurrency: 32, maxConcurrency: 512 })
  expect(config({ machine: { cores: 2 } })).toMatchObject({ concurrency: 8, maxConcurrency: 128 })
  expect(config({ env: { ORK_CONCURRENCY: "5" } })).toMatchObject({ concurrency: 5, maxConcurrency: 5 })
})

test("a flag overrides a variable, which overrides the file, which overrides the default", () => {
  const file = { concurrency: 3 }
  expect(config({ file }).concurrency).toBe(3)
  expect(config({ file, env: { ORK_CONCURRENCY: "4" } }).concurrency).toBe(4)
  expect(config({ file, env: { ORK_CONCURRENCY: "4" }, flags: { concurrency: "5" } }).concurrency).toBe(5)
})

test("ORK_PORT as Kubernetes sets it for a Service named ork counts as not set", () => {
  expect(config({ env: { ORK_PORT: "tcp://10.96.0.7:4000" } }).port).toBe(4000)
})

test("an empty variable counts as not set", () => {
  expect(config({ env: { ORK_DATABASE_URL: "" } }).databaseUrl).toBe("sqlite:.ork/ork.db")
})

test("the database and the objects are in the data folder by default", () => {
  const moved = config({ env: { ORK_DATA_DIR: "/var/lib/ork", ORK_OBJECT_STORE: "file:/mnt/objects" } })
  expect(moved.databaseUrl).toBe("sqlite:/var/lib/ork/ork.db")
  expect(moved.objectStore).toBe("file:/mnt/objects")
})

test("sizes and durations accept units", () => {
  const { maxOutputBytes, graceMs } = config({ env: { ORK_MAX_OUTPUT: "1Mi", ORK_GRACE: "3s" } })
  expect([maxOutputBytes, graceMs]).toEqual([1024 * 1024, 3000])
})

test.each([
  [
    { env: { ORK_MAX_LOG: "100Ki" } },
    'ORK_MAX_LOG: "100Ki" is not bytes or a text such as "512Mi", "1Gi", "500M", at least 1Mi',
  ],
  [{ flags: { concurrency: "0" } }, '--concurrency: "0" is not a whole number from 1 to 10000'],
  [{ flags: { concurrency: "many" } }, '--concurrency: "many" is not a whole number from 1 to 10000'],
  [{ env: { ORK_DATABASE_URL: "mysql://x" } }, 'ORK_DATABASE_URL: "mysql://x" is not sqlite:FILE or postgres://…'],
  [
    { env: { ORK_DATABASE_URL: "mysql://me:pw@host/x" } },
    'ORK_DATABASE_URL: "mysql://…@host/x" is not sqlite:FILE or postgres://…',
  ],
  [{ env: { ORK_DATABASE_URL: "sqlite:" } }, 'ORK_DATABASE_URL: "sqlite:" is not sqlite:FILE or postgres://…'],
  [{ file: { max_fanout: -1 } }, "ork.yaml: max_fanout: -1 is not a whole number from 1 to 10000000"],
  [{ file: { concurency: 3 } }, "ork.yaml: unknown setting concurency; did you mean concurrency?"],
])("rejects %j with the source and the expected value", (given, message) => {
  expect(problems(given)).toEqual([message])
})

test("all problems are reported together", () => {
  expect(problems({ env: { ORK_CONCURRENCY: "x", ORK_GRACE: "soon" }, file: { nope: 1 } })).toHaveLength(3)
})

test("a key that is too short is rejected without showing it", () => {
  expect(problems({ env: { ORK_API_KEY: "hunter2" } })).toEqual([
    "ORK_API_KEY: the value is not a key of at least 16 characters",
  ])
})

test("the address of a server has the scheme http or https, and its trailing slash is removed", () => {
  expect(config({ env: { ORK_URL: "https://ork.example/" } }).url).toBe("https://ork.example")
  expect(problems({ env: { ORK_URL: "ork.example" } })).toHaveLength(1)
})

test("files of handlers are a list, or names separated by commas", () => {
  expect(config({ file: { handlers: ["tasks.ts", "mail.ts"] } })).toMatchObject({ handlers: ["tasks.ts", "mail.ts"] })
  expect(config({ env: { ORK_HANDLERS: "tasks.ts, mail.ts" } })).toMatchObject({ handlers: ["tasks.ts", "mail.ts"] })
  expect(problems({ file: { handlers: [1] } })).toEqual(["ork.yaml: handlers: [1] is not files, separated by commas"])
})

test.each([
  ["true", true],
  ["false", false],
  ["10.0.0.0/8, ::1", ["10.0.0.0/8", "::1"]],
])("trust_proxy accepts %j", (value, expected) => {
  expect(config({ env: { ORK_TRUST_PROXY: value } })).toMatchObject({ trustProxy: expected })
})

test("a lease has a least length", () => {
  expect(problems({ env: { ORK_SERVER_LEASE: "1s" } })).toEqual([expect.stringContaining("ORK_SERVER_LEASE")])
  expect(problems({ env: { ORK_WORKER_LEASE: "100ms" } })).toEqual([expect.stringContaining("ORK_WORKER_LEASE")])
  const env = { ORK_SERVER_LEASE: "30s", ORK_WORKER_LEASE: "1m" }
  expect(config({ env })).toMatchObject({ serverLeaseMs: 30_000, workerLeaseMs: 60_000 })
})

test("a variable that nothing reads is reported, with the nearest known one", () => {
  expect(unknownVariables({ ORK_DATABSE_URL: "x", ORK_XYZ: "1", OTHER: "x" })).toEqual([
    "Ork does not know the variable ORK_DATABSE_URL; did you mean ORK_DATABASE_URL?",
    "Ork does not know the variable ORK_XYZ",
  ])
})

test("settings, secrets, variables that Ork sets for tasks, and those of a Service named ork are known", () => {
  const settings = Object.values(SETTINGS).map(({ key }) => [`ORK_${key.toUpperCase()}`, "x"] as const)
  const others = {
    ORK_SECRET_TOKEN: "x",
    ORK_TASK_ID: "x",
    ORK_INPUT: "x",
    ORK_VALUE_1: "x",
    ORK_SERVICE_HOST: "10.96.0.7",
    ORK_SERVICE_PORT_HTTP: "4000",
    ORK_PORT_4000_TCP_ADDR: "10.96.0.7",
    ORK_DB_PORT: "tcp://10.96.0.8:5432",
  }
  expect(unknownVariables({ ...Object.fromEntries(settings), ...others })).toEqual([])
})
