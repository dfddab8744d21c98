// Builds what a release consists of, in a folder: the packages, their SBOM (CycloneDX), their provenance (in-toto, SLSA 1) and checksums.
// `node scripts/release.ts FOLDER`. Refuses a checkout with changes, a lock file with problems, and base images without a digest.

import { execFileSync } from "node:child_process"
import { createHash } from "node:crypto"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { IMAGE_FILES, unpinnedImages } from "./images.ts"
import { writePackages } from "./pack.ts"

const ROOT = join(import.meta.dirname, "..")

export interface Subject {
  name: string
  digest: { sha256: string }
}

/** Returns an in-toto statement about how the files were built. */
export const provenanceOf = (subject: Subject[], source: { commit: string; lockHash: string; node: string }): object => ({
  _type: "https://in-toto.io/Statement/v1",
  subject,
  predicateType: "https://slsa.dev/provenance/v1",
  predicate: {
    buildDefinition: {
      buildType: "urn:ork:npm-pack:1",
      externalParameters: { command: "node scripts/release.ts" },
      internalParameters: { node: source.node },
      resolvedDependencies: [
        { uri: "git+ork", digest: { gitCommit: source.commit } },
        { uri: "package-lock.json", digest: { sha256: source.lockHash } },
      ],
    },
    runDetails: { builder: { id: "urn:ork:scripts/release.ts" } },
  },
})

export interface Sbom {
  components: { "bom-ref": string; name: string; hashes?: object[] }[]
  dependencies: { ref: string; dependsOn: string[] }[]
}

type Locked = { [path: string]: { version?: string; dev?: boolean } }

/** Keeps what users install. `npm sbom --omit dev` also drops packages of users that a tool depends on. */
export const withoutTools = (sbom: Sbom, packages: Locked): Sbom => {
  const installed = new Set(
    Object.entries(packages).flatMap(([path, { version, dev }]) =>
      dev === true ? [] : [`${path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length)}@${version}`],
    ),
  )
  const components = sbom.components.filter((component) => installed.has(component["bom-ref"]))
  const refs = new Set(components.map((component) => component["bom-ref"]))
  const dependencies = sbom.dependencies
    .filter(({ ref }) => refs.has(ref) || ref.startsWith("ork@"))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((other) => refs.has(other)) }))
  return { ...sbom, components, dependencies }
}

const sha256 = (path: string): string => createHash("sha256").update(readFileSync(path)).digest("hex")

const run = (command: string, ...args: string[]): string =>
  execFileSync(command, args, { cwd: ROOT, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"], maxBuffer: 1 << 28 })

const release = async (folder: string): Promise<void> => {
  if (run("git", "status", "--porcelain") !== "") throw new Error("the checkout has changes; commit them first")
  run(process.execPath, "scripts/check-lock.ts")
  const images = IMAGE_FILES.flatMap((file) => unpinnedImages(readFileSync(join(ROOT, file), "utf8")))
  if (images.length > 0) {
    throw new Error(`base images without a digest: ${images.join(", ")}; run \`npm run pin-images\`, and commit the result`)
  }
  run("npm", "run", "build")
  await writeArtifacts(folder)
}

/** Writes the packages as they are built, their SBOM, their provenance and the checksums. Needs no network. */
export const writeArtifacts = async (folder: string): Promise<void> => {
  mkdirSync(folder, { recursive: true })
  const sources = mkdtempSync(join(tmpdir(), "ork-release-"))
  const packages = (await writePackages(sources)).map((source) => pack(source, folder))
  rmSync(sources, { recursive: true })
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string }
  const base = `ork-${version}`
  const sbom = run("npm", "sbom", "--sbom-format", "cyclonedx", "--package-lock-only", "--workspaces=false")
  const lock = JSON.parse(readFileSync(join(ROOT, "package-lock.json"), "utf8")) as { packages: Locked }
  writeFileSync(
    join(folder, `${base}.cdx.json`),
    `${JSON.stringify(withoutTools(JSON.parse(sbom) as Sbom, lock.packages), null, 2)}\n`,
  )
  const files = [...packages, `${base}.cdx.json`]
  const subject = files.map((name) => ({ name, digest: { sha256: sha256(join(folder, name)) } }))
  const commit = run("git", "rev-parse", "HEAD").trim()
  const source = { commit, lockHash: sha256(join(ROOT, "package-lock.json")), node: process.version }
  writeFileSync(join(folder, `${base}.provenance.json`), `${JSON.stringify(provenanceOf(subject, source), null, 2)}\n`)
  const sums = [...files, `${base}.provenance.json`].map((name) => `${sha256(join(folder, name))}  ${name}\n`)
  writeFileSync(join(folder, "SHA256SUMS"), sums.join(""))
}

/** Packs a folder and returns the name of the file. */
const pack = (source: string, folder: string): string => {
  const [packed] = JSON.parse(run("npm", "pack", source, "--json", "--ignore-scripts", "--pack-destination", folder)) as [
    { filename: string },
  ]
  return packed.filename
}

if (import.meta.main) {
  const folder = process.argv[2]
  if (folder === undefined) throw new Error("name the folder: node scripts/release.ts FOLDER")
  await release(resolve(folder))
}
