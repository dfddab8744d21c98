// usage: npm run bench -- peers [--install] [--rounds N] [--jobs N] [--only TEXT] [--no-million] [--write]
// Compares Ork, packed from dist/, with other products: products and rounds take turns, each round in a fresh process. Prints a JSON line per round and the
// comparisons; `--write` writes docs/performance.md. `--install` installs the other products into bench/peers first. `--no-million` leaves
// out the workload of a million jobs, which has one round of several minutes.

import { execFileSync, spawnSync } from "node:child_process"
import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { cpus, release, totalmem } from "node:os"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { writePackages } from "../../scripts/pack.ts"
import { ask } from "../../test/support/components/postgres.ts"
import { tempFolder } from "../support.ts"
import type { Services } from "./driver.ts"
import { type Product, PRODUCTS, type Workload } from "./products.ts"
import { jobsPlot, type Machine, markdown, outcomesOf, type Report } from "./report.ts"
import type { Round } from "./results.ts"
import { type Servers, startServers } from "./services.ts"

const HERE = import.meta.dirname
const ROOT = join(HERE, "../..")
const ROUND_LIMIT_MS = 180_000
const MILLION_LIMIT_MS = 900_000

const { values } = parseArgs({
  allowPositionals: true,
  options: {
    install: { type: "boolean", default: false },
    rounds: { type: "string", default: "3" },
    jobs: { type: "string", default: "20000" },
    only: { type: "string", default: "" },
    million: { type: "boolean", default: true },
    write: { type: "boolean", default: false },
  },
  allowNegative: true,
})

let databases = 0

const withDatabase = async <T>(server: string, use: (url: string) => Promise<T>): Promise<T> => {
  const name = `bench_${++databases}`
  await ask(server, `CREATE DATABASE ${name}`)
  const url = new URL(server)
  url.pathname = `/${name}`
  try {
    return await use(url.href)
  } finally {
    await ask(server, `DROP DATABASE ${name} WITH (FORCE)`)
  }
}

const runRound = async (servers: Servers, product: Product, workload: Workload, jobs: number): Promise<Round | null> => {
  const folder = tempFolder()
  try {
    return await withDatabase(servers.postgres, async (postgres) => {
      const services: Services = { postgres, redis: servers.redis, folder: folder.path }
      const given = { ...services, variant: product.variant ?? {} }
      const args = ["--expose-gc", "--no-warnings", join(HERE, "round.ts"), product.driver, workload, String(jobs)]
      const child = spawnSync(process.execPath, args, {
        cwd: HERE,
        encoding: "utf8",
        timeout: workload === "million" ? MILLION_LIMIT_MS : ROUND_LIMIT_MS,
        killSignal: "SIGKILL",
        env: { ...process.env, ORK_BENCH_ROUND: JSON.stringify(given) },
      })
      const printed = child.stdout.trim().split("\n").at(-1) ?? ""
      if (child.status !== 0 || !printed.startsWith("{")) {
        console.error(`${product.name}, ${workload}: failed: ${child.stderr.slice(-500)}`)
        return null
      }
      const round: Round = { product: product.name, workload, figures: JSON.parse(printed) as Record<string, number> }
      console.log(JSON.stringify(round))
      return round
    })
  } finally {
    folder.remove()
  }
}

const machineOf = (): Machine => ({
  cpu: cpus()[0]!.model.trim(),
  cores: cpus().length,
  memoryGb: Math.round(totalmem() / 2 ** 30),
  node: process.versions.node,
  kernel: `Linux ${release()}`,
})

const PACKAGES: Record<string, string> = {
  "Graphile Worker": "graphile-worker",
  "pg-boss": "pg-boss",
  BullMQ: "bullmq",
  DBOS: "@dbos-inc/dbos-sdk",
  Restate: "@restatedev/restate-server",
  "OpenWorkflow Postgres": "openworkflow",
}

const versionOf = (folder: string): string =>
  (JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as { version: string }).version

const isOrk = ({ name }: Product): boolean => name.startsWith("Ork ")

const versionsOf = (servers: Servers): Record<string, string> => ({
  ...Object.fromEntries(PRODUCTS.filter(isOrk).map(({ name }) => [name, versionOf(ROOT)])),
  ...Object.fromEntries(Object.entries(PACKAGES).map(([name, pkg]) => [name, versionOf(join(HERE, "node_modules", pkg))])),
  Postgres: servers.versions.postgres,
  Redis: servers.versions.redis,
})

if (values.install) execFileSync("npm", ["install", "--no-audit", "--no-fund"], { cwd: HERE, stdio: "inherit" })
if (!existsSync(join(HERE, "node_modules")))
  throw new Error("the other products are not installed: npm run bench -- peers --install")

await writePackages(join(ROOT, "dist-packages"))
const folder = tempFolder()
const servers = await startServers(folder.path)
const rounds: Round[] = []

const runWorkload = async (workload: Workload): Promise<void> => {
  for (const product of PRODUCTS) {
    if (!product.workloads.includes(workload) || !`${product.name} ${workload}`.includes(values.only)) continue
    const measured = await runRound(servers, product, workload, Number(values.jobs))
    if (measured !== null) rounds.push(measured)
  }
}

try {
  for (let round = 0; round < Number(values.rounds); round++)
    for (const workload of ["jobs", "latency", "graphs", "functions", "memory", "processes"] as const)
      await runWorkload(workload)
  if (values.million) await runWorkload("million")
} finally {
  await servers.stop()
  folder.remove()
}

for (const { comparison, ork, rival, ratio, reached } of outcomesOf(rounds)) {
  const sign = comparison.better === "higher" ? "≥" : "≤"
  const text = `${comparison.label}, ${comparison.ork} ${ork.toFixed(2)}, ${rival.name} ${rival.value.toFixed(2)}`
  console.log(`${reached ? "reached" : "missed "}  ${text}: ${ratio.toFixed(2)} × (target ${sign} ${comparison.target} ×)`)
}
if (values.write) {
  const report: Report = {
    date: new Date().toISOString().slice(0, 10),
    commit: execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: ROOT, encoding: "utf8" }).trim(),
    machine: machineOf(),
    versions: versionsOf(servers),
    rounds,
    repeated: Number(values.rounds),
    jobs: Number(values.jobs),
  }
  writeFileSync(join(ROOT, "docs/performance.md"), markdown(report))
  writeFileSync(join(ROOT, "docs/images/performance-jobs.svg"), jobsPlot(rounds))
}
