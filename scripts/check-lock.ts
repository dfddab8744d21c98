// Prints the problems of the lock file, and nothing if there are none. It looks for five: a package without a checksum; a runtime package
// that runs a script when it is installed; a runtime package that needs a newer Node than `engines` in package.json promises; the
// address of a private registry; and platform packages that npm left out because the registry did not have them, after which `npm ci`
// fails. `node scripts/check-lock.ts [FOLDER]`: FOLDER is the root of the checkout, by default the parent of this file's folder.

import { readFileSync } from "node:fs"
import { join } from "node:path"

interface Package {
  version?: string
  dev?: boolean
  link?: boolean
  resolved?: string
  integrity?: string
  hasInstallScript?: boolean
  engines?: { node?: string }
  optionalDependencies?: { [name: string]: string }
}

type Packages = { [path: string]: Package }

type Version = readonly [major: number, minor: number, patch: number]

const COMPARATOR = /^(>=|>|<=|<|\^|~|=)?v?(\d+|[*x])(?:\.(\d+|[*x]))?(?:\.(\d+|[*x]))?$/

const compare = (a: Version, b: Version): number => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]

/** Parses a comparator; null: it is not understood. */
const holds = (node: Version, comparator: string): boolean | null => {
  const match = COMPARATOR.exec(comparator)
  if (match === null) return null
  const given = match.slice(2).map((part) => (part === undefined || part === "*" || part === "x" ? null : Number(part)))
  const [major = null, minor = null, patch = null] = given
  if (major === null) return true
  const least: Version = [major, minor ?? 0, patch ?? 0]
  const order = compare(node, least)
  switch (match[1]) {
    case ">=":
      return order >= 0
    case ">":
      return order > 0
    case "<=":
      return order <= 0
    case "<":
      return order < 0
    case "^":
      return order >= 0 && node[0] === major
    case "~":
      return order >= 0 && node[0] === major && (minor === null || node[1] === minor)
    default:
      return node[0] === major && (minor === null || node[1] === minor) && (patch === null || node[2] === patch)
  }
}

/** Returns whether a range of `engines` accepts a version; a range that is not understood accepts none. */
export const accepts = (range: string, node: Version): boolean =>
  range.split("||").some((clause) =>
    clause
      .trim()
      .replaceAll(/([<>=^~])\s+/g, "$1")
      .split(/\s+/)
      .every((comparator) => comparator === "" || holds(node, comparator) === true),
  )

const oldestOf = (range: string): Version => {
  const match = /^>=(\d+)\.(\d+)(?:\.(\d+))?$/.exec(range)
  if (match === null)
    throw new Error(`engines.node is ${range}, and should be the oldest version that Ork runs on, as in >=22.13`)
  return [Number(match[1]), Number(match[2]), Number(match[3] ?? 0)]
}

export const tooNew = (oldest: string, packages: Packages): string[] => {
  const node = oldestOf(oldest)
  return Object.entries(packages).flatMap(([path, { version, dev, engines }]) => {
    if (path === "" || dev === true || engines?.node === undefined || accepts(engines.node, node)) return []
    return [`${path} ${version}: wants Node ${engines.node}, and Ork runs on ${node.join(".")}; take an older version of it`]
  })
}

export const withAddress = (packages: Packages): string[] =>
  Object.entries(packages).flatMap(([path, { resolved, link }]) =>
    resolved === undefined || link === true
      ? []
      : [`${path}: has the address ${resolved}; see omit-lockfile-registry-resolved`],
  )

/** Packages without a checksum. A registry that does not have a package for another platform yet causes that. */
export const withoutIntegrity = (packages: Packages): string[] =>
  Object.entries(packages).flatMap(([path, { integrity, link }]) => {
    const isPackage = /(^|\/)node_modules\//.test(path) && link !== true
    if (!isPackage || integrity !== undefined) return []
    return [`${path}: has no integrity; take a version of it that the registry has for all platforms`]
  })

/** Packages that would run a script when a user installs Ork. */
export const withInstallScript = (packages: Packages): string[] =>
  Object.entries(packages).flatMap(([path, { hasInstallScript, dev }]) =>
    hasInstallScript === true && dev !== true ? [`${path}: runs a script when Ork is installed; replace it`] : [],
  )

export const missingOptional = (packages: Packages): string[] =>
  Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
    Object.keys(optionalDependencies)
      .filter((name) => !found(packages, path, name))
      .map((name) => `${path}: its optional ${name} is missing, and \`npm ci\` refuses that`),
  )

/** Resolves a package as Node does: beside its owner, then in the folders above. */
const found = (packages: Packages, path: string, name: string): boolean => {
  for (let folder = path; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf("/node_modules/")))) {
    if (`${folder === "" ? "" : `${folder}/`}node_modules/${name}` in packages) return true
    if (folder === "") return false
  }
}

if (import.meta.main) {
  const root = process.argv[2] ?? join(import.meta.dirname, "..")
  const read = <T>(file: string): T => JSON.parse(readFileSync(join(root, file), "utf8")) as T
  const { engines } = read<{ engines: { node: string } }>("package.json")
  const { packages } = read<{ packages: Packages }>("package-lock.json")
  const problems = [
    ...tooNew(engines.node, packages),
    ...withAddress(packages),
    ...missingOptional(packages),
    ...withoutIntegrity(packages),
    ...withInstallScript(packages),
  ]
  for (const problem of problems) console.log(problem)
  process.exitCode = problems.length > 0 ? 1 : 0
}
