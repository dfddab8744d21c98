// Prints every import in src/ that violates the layers of docs/architecture.md, and every impurity of src/core; prints nothing when
// there are none. Tests, their helpers (testing) and conformance suites may import anything.
// `node scripts/check-imports.ts [FOLDER]`: FOLDER is the root of the checkout, by default the one of this file.

import { globSync, readFileSync } from "node:fs"
import { dirname, join, normalize, relative } from "node:path"

/**
 * Layers of a folder, lowest first. A unit is a subfolder, a file, or `*.ts` for the remaining files of the folder. It may import
 * units of lower layers; units of the same layer may not import each other, except those that are in a list of their own.
 */
type Layers = readonly (readonly (string | readonly string[])[])[]

const STORE_LAYERS: Layers = [
  ["connection"],
  ["schema", "cache"],
  ["tx.ts"],
  ["claim"],
  [["advance", "runs", "jobs", "functions", "admin"], "transfer"],
  ["*.ts"],
]

const LAYERS: Record<string, Layers> = {
  "": [
    ["core"],
    ["config-values.ts", "sleep.ts"],
    ["config.ts", "definition", "import", "protocol", "store", "objects", "secrets"],
    ["executors", "backup"],
    ["engine"],
    ["api", "worker"],
    ["server"],
    ["sdk"],
    ["cli"],
    ["backends.ts"],
    ["main.ts"],
  ],
  core: [["values"], ["model"], ["expressions", "time", "settings", "routing"], ["rules"], ["compile"]],
  "core/rules": [["messages.ts"], ["jobs", "claims", "access"], ["changes"], ["runs"], ["explain.ts"]],
  "core/compile": [["code"], ["context"], ["task", "workflow"], ["graph"], ["*.ts"]],
  protocol: [["api", "wire"], ["client"]],
  store: [["contract"], ["shared"], ["sqlite", "postgres"]],
  "store/sqlite": STORE_LAYERS,
  "store/postgres": STORE_LAYERS,
  objects: [["*.ts"], ["shared"], ["file", "gcs", "s3", "logs", "bundles", "matches"], ["artifacts"], ["open.ts"]],
  executors: [
    ["*.ts"],
    ["interpreter"],
    ["process", "exec", "docker", "http"],
    ["pool", "remote", "wait"],
    ["node", "python", "kubernetes", "slurm", "cloudrun"],
    ["probes.ts"],
  ],
  engine: [
    ["ports.ts", "finishes-within.ts", "limited-thread.ts", "run-json.ts", "system.ts"],
    ["adaptive-limit.ts", "claim-ahead.ts"],
    ["attempts"],
    ["loop", "waiting"],
    ["gate"],
    ["dispatcher.ts"],
    ["engine.ts"],
    ["services", "workers"],
  ],
  api: [["shared"], ["auth", "feed"], ["http"], ["streams", "views"], ["routes"], ["http/server.ts"]],
  worker: [["tasks"], ["connection"], ["exec", "folders", "push"], ["*.ts"]],
  cli: [
    ["terminal"],
    ["target"],
    ["completion", "progress"],
    ["run", "cases", "dev", "report"],
    ["simulate", "replay", "mcp"],
    ["commands"],
    ["program.ts"],
  ],
}

/** Folders that must have the same subfolders. */
const ALIKE = [["store/sqlite", "store/postgres"]] as const

/** Backends, which only `ROOTS` may import, and the contract that all other code imports instead. */
const BACKENDS: [RegExp, string][] = [
  [/^store\/(?!(?:contract|shared)\/)[^/]+\//, "store/contract/store.ts"],
  [/^objects\/(?:open|file|s3|gcs)(?:\.ts$|\/)/, "objects/objects.ts"],
  [/^secrets\/(?!secrets\.ts$)/, "secrets/secrets.ts"],
  [/^executors\/(?!(?:executor|errors|input|registry)\.ts$)/, "executors/executor.ts"],
]

/** Files that compose a program from backends: the command, and an engine or a worker inside a user's program. */
const ROOTS = [
  "backends.ts",
  "objects/open.ts",
  "sdk/start-worker.ts",
  "sdk/open.ts",
  "sdk/test.ts",
  "sdk/durable/program-executor.ts",
  "sdk/test-kit/mocked-executor.ts",
]

const EXEMPT = /\.test\.ts$|\/conformance\/|\/testing(?:\.ts$|\/)/
const IMPORT = /(?:^|\s)(?:import|export)\b[^"'`;]*?["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']/gm

/** Modules of Node that core may import: loading a library on first use and hashing have no visible effect. */
const PURE_BUILTINS = new Set(["node:module", "node:crypto"])

const IMPURE: [RegExp, string][] = [
  [/\bDate\.now\b|\bnew Date\(\)|\bperformance\./, "must not read a clock"],
  [/\bMath\.random\b|\brandomUUID\b|\bgetRandomValues\b|\brandomBytes\b/, "must not use randomness"],
  [/\bset(?:Timeout|Interval|Immediate)\b|\bqueueMicrotask\b/, "must not set a timer"],
  [/\basync\b|\bawait\b|\bnew Promise\b|\bPromise\./, "must not be asynchronous"],
  [/\bprocess\.|\bconsole\.|\bfetch\(/, "must not have side effects"],
]

export const checkTree = (root: string): string[] => {
  const src = join(root, "src")
  const files = globSync("**/*.ts", { cwd: src })
    .toSorted()
    .filter((file) => !EXEMPT.test(file))
  return [
    ...ALIKE.flatMap((pair) => differences(files, pair)),
    ...files.flatMap((file) => checkFile(file, readFileSync(join(src, file), "utf8"))),
  ]
}

const checkFile = (file: string, source: string): string[] => {
  const names = importsOf(source)
  const problems = names
    .filter((name) => name.startsWith("."))
    .map((name) => importProblem(file, normalize(join(dirname(file), name))))
    .filter((problem) => problem !== null)
  if (!file.startsWith("core/")) return problems
  const builtins = names.filter((name) => name.startsWith("node:") && !PURE_BUILTINS.has(name))
  return [...problems, ...builtins.map((name) => `src/${file}: core must not import ${name}`), ...impurities(file, source)]
}

const importsOf = (source: string): string[] =>
  [...source.matchAll(IMPORT)].map((match) => match[1] ?? match[2]).filter((name) => name !== undefined)

const importProblem = (file: string, target: string): string | null =>
  layerProblem(file, target) ?? backendProblem(file, target)

// -- layers ------------------------------------------------------------------------------------------------------------------------

/** Compares the layers of a file and its target in the innermost folder that contains both. */
const layerProblem = (file: string, target: string): string | null => {
  const folder = commonFolder(file, target)
  const layers = LAYERS[folder]
  if (layers === undefined) return null
  const [from, to] = [unitOf(folder, layers, file), unitOf(folder, layers, target)]
  if (from === null) return `src/${file}: has no layer; add it to LAYERS in scripts/check-imports.ts`
  if (to === null) return `src/${file}: imports src/${target}, which has no layer; add it to LAYERS in scripts/check-imports.ts`
  if (from.name === to.name || to.layer < from.layer || to.group === from.group) return null
  return `src/${file}: ${join(folder, from.name)} must not import ${join(folder, to.name)} (src/${target})`
}

const commonFolder = (a: string, b: string): string => {
  const steps = dirname(a).split("/")
  const others = dirname(b).split("/")
  const length = steps.findIndex((step, i) => step !== others[i])
  const common = length === -1 ? steps : steps.slice(0, length)
  return common.join("/") === "." ? "" : common.join("/")
}

interface Unit {
  name: string
  layer: number
  /** Units with the same group may import each other. */
  group: string
}

/** Returns the unit of a folder that contains a file: the file itself, its subfolder, or `*.ts`; null when none is listed. */
const unitOf = (folder: string, layers: Layers, file: string): Unit | null => {
  const path = folder === "" ? file : file.slice(folder.length + 1)
  const [first] = path.split("/")
  const candidates = path === first ? [path, "*.ts"] : [path, first!]
  for (const name of candidates) {
    for (const [layer, entries] of layers.entries()) {
      for (const entry of entries) {
        const names = typeof entry === "string" ? [entry] : entry
        if (names.includes(name)) return { name, layer, group: names.join() }
      }
    }
  }
  return null
}

const isIn = (file: string, folderOrFile: string): boolean => file === folderOrFile || file.startsWith(`${folderOrFile}/`)

const differences = (files: readonly string[], [a, b]: readonly [string, string]): string[] => {
  const subfolders = (folder: string): Set<string> =>
    new Set(
      files.filter((file) => isIn(dirname(dirname(file)), folder)).map((file) => file.slice(folder.length + 1).split("/")[0]!),
    )
  const [inA, inB] = [subfolders(a), subfolders(b)]
  if (inA.size === 0 || inB.size === 0) return []
  const missing = (present: string, absent: string, names: Set<string>, others: Set<string>): string[] =>
    [...names]
      .filter((name) => !others.has(name))
      .map((name) => `src/${present}/${name}: src/${absent} has no such folder; both must have the same`)
  return [...missing(a, b, inA, inB), ...missing(b, a, inB, inA)]
}

// -- backends and purity -----------------------------------------------------------------------------------------------------------

const backendProblem = (file: string, target: string): string | null => {
  if (file.split("/")[0] === target.split("/")[0] || ROOTS.includes(file)) return null
  const backend = BACKENDS.find(([pattern]) => pattern.test(target))
  if (backend === undefined) return null
  return `src/${file}: only ${ROOTS.map((root) => `src/${root}`).join(" and ")} may import backends; import src/${backend[1]} instead of src/${target}`
}

const impurities = (file: string, source: string): string[] =>
  source.split("\n").flatMap((line, i) => {
    if (/^\s*(?:\/\/|\/?\*)/.test(line)) return []
    const code = line.replaceAll(/"[^"]*"/g, '""').replace(/\/\/.*/, "")
    return IMPURE.filter(([pattern]) => pattern.test(code)).map(
      ([, rule]) => `src/${file}:${i + 1}: core ${rule}: ${line.trim()}`,
    )
  })

if (import.meta.main) {
  const root = process.argv[2] ?? join(import.meta.dirname, "..")
  const problems = checkTree(relative(process.cwd(), root) || ".")
  for (const problem of problems) console.log(problem)
  process.exitCode = problems.length > 0 ? 1 : 0
}
