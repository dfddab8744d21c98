// Prints every import in src/ that points the wrong way, and every impurity of src/core; prints nothing when all is well.
// The order is the one of docs/architecture.md. Tests, what helps them (testing) and conformance suites may import what they like.
// `node scripts/check-imports.ts [FOLDER]`: FOLDER is the root of the checkout, by default the one this file lies in.

import { globSync, readFileSync } from "node:fs"
import { dirname, join, normalize, relative } from "node:path"

/** A module may import its own folder and any of a lower rank. */
const RANK: Record<string, number> = {
  core: 0,
  "config.ts": 1,
  definition: 2,
  protocol: 1,
  store: 1,
  objects: 1,
  secrets: 1,
  executors: 2,
  engine: 3,
  api: 4,
  worker: 4,
  server: 5,
  sdk: 6,
  cli: 6,
  "main.ts": 7,
}

/** Backends are named by `ROOTS` alone; everybody else sees the contract that lies beside them. */
const BACKENDS: [RegExp, string][] = [
  [/^store\/(?!(?:contract|shared)\/)[^/]+\//, "store/contract/store.ts"],
  [/^objects\/(?:file|s3|gcs)(?:\.ts$|\/)/, "objects/objects.ts"],
  [/^secrets\/(?!secrets\.ts$)/, "secrets/secrets.ts"],
  [/^executors\/(?!(?:executor|errors|registry)\.ts$)/, "executors/executor.ts"],
]

/** Where a whole is put together: the command, and the worker that a program of the user's own holds. */
const ROOTS = ["main.ts", "sdk/start-worker.ts"]

const EXEMPT = /\.test\.ts$|\/conformance\/|\/testing(?:\.ts$|\/)/
const IMPORT = /(?:^|\s)(?:import|export)\b[^"'`;]*?["']([^"']+)["']|\bimport\(\s*["']([^"']+)["']/gm

/** What core may take from Node: loading a library on first use and hashing have no effect that anybody can see. */
const PURE_BUILTINS = new Set(["node:module", "node:crypto"])

const IMPURE: [RegExp, string][] = [
  [/\bDate\.now\b|\bnew Date\(\)|\bperformance\./, "reads a clock"],
  [/\bMath\.random\b|\brandomUUID\b|\bgetRandomValues\b|\brandomBytes\b/, "makes randomness"],
  [/\bset(?:Timeout|Interval|Immediate)\b|\bqueueMicrotask\b/, "sets a timer"],
  [/\basync\b|\bawait\b|\bnew Promise\b|\bPromise\./, "is asynchronous"],
  [/\bprocess\.|\bconsole\.|\bfetch\(/, "touches the world"],
]

/** Folder under src/, or the file itself at the top. */
const areaOf = (file: string): string => file.split("/")[0] ?? file

const wrongImport = (file: string, target: string): string | null => {
  const from = areaOf(file)
  const to = areaOf(target)
  if (from === to) return null
  const [own, other] = [RANK[from], RANK[to]]
  if (own === undefined) return `src/${file}: ${from} has no place in the order of imports`
  if (other === undefined) return `src/${file}: imports src/${target}, which has no place in the order of imports`
  if (other >= own) return `src/${file}: ${from} must not import ${to} (src/${target})`
  const backend = BACKENDS.find(([pattern]) => pattern.test(target))
  if (backend === undefined || ROOTS.includes(file)) return null
  return `src/${file}: only src/main.ts names backends; import src/${backend[1]}, not src/${target}`
}

const impurities = (file: string, source: string): string[] =>
  source.split("\n").flatMap((line, i) => {
    if (/^\s*(?:\/\/|\/?\*)/.test(line)) return []
    const code = line.replaceAll(/"[^"]*"/g, '""').replace(/\/\/.*/, "")
    return IMPURE.filter(([pattern]) => pattern.test(code)).map(
      ([, what]) => `src/${file}:${i + 1}: core ${what}: ${line.trim()}`,
    )
  })

const importsOf = (source: string): string[] =>
  [...source.matchAll(IMPORT)].map((match) => match[1] ?? match[2]).filter((name) => name !== undefined)

export const checkTree = (root: string): string[] => {
  const src = join(root, "src")
  return globSync("**/*.ts", { cwd: src })
    .toSorted()
    .filter((file) => !EXEMPT.test(file))
    .flatMap((file) => checkFile(file, readFileSync(join(src, file), "utf8")))
}

const checkFile = (file: string, source: string): string[] => {
  const names = importsOf(source)
  const problems = names
    .filter((name) => name.startsWith("."))
    .map((name) => wrongImport(file, normalize(join(dirname(file), name))))
    .filter((problem) => problem !== null)
  if (areaOf(file) !== "core") return problems
  const builtins = names.filter((name) => name.startsWith("node:") && !PURE_BUILTINS.has(name))
  const outside = builtins.map((name) => `src/${file}: core must not import ${name}`)
  return [...problems, ...outside, ...impurities(file, source)]
}

if (import.meta.main) {
  const root = process.argv[2] ?? join(import.meta.dirname, "..")
  const problems = checkTree(relative(process.cwd(), root) || ".")
  for (const problem of problems) console.log(problem)
  process.exitCode = problems.length > 0 ? 1 : 0
}
