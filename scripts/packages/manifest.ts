// The manifest of a package that users install. Its dependencies are what its code imports, with the versions of the checkout.

import { OPTIONAL_PACKAGES } from "../../src/core/settings/optional-packages.ts"
import { BUNDLED } from "./bundled.ts"
import { packageOf } from "./closure.ts"

/** Fields of the checkout's package.json. */
export interface RootManifest {
  version: string
  license: string
  repository?: object
  engines: object
  exports: { [entry: string]: string | { types: string; default: string } }
  dependencies: { [name: string]: string }
}

export interface PackageFields {
  name: string
  description: string
  /** Files by command. */
  bin: { [command: string]: string }
  exports: RootManifest["exports"]
  /** Optional packages that this package installs all the same. */
  includes: readonly string[]
}

const OPTIONAL = new Set<string>(Object.values(OPTIONAL_PACKAGES).flat())

/** `specifiers`: what the code imports, such as `zod` and `ajv/dist/2020.js`. */
export const manifestOf = (root: RootManifest, fields: PackageFields, specifiers: Iterable<string>): object => {
  const { version, license, repository, engines } = root
  const { name, description, bin, exports, includes } = fields
  const imported = [...specifiers].filter((specifier) => BUNDLED[specifier] === undefined).map(packageOf)
  const packages = [...new Set(imported)].toSorted()
  const isPeer = (each: string): boolean => OPTIONAL.has(each) && !includes.includes(each)
  const peers = packages.filter(isPeer)
  const versions = (names: string[]): object => Object.fromEntries(names.map((each) => [each, versionOf(root, each)]))
  return {
    name,
    version,
    description,
    license,
    ...(repository !== undefined && { repository }),
    type: "module",
    engines,
    bin,
    exports,
    dependencies: versions(packages.filter((each) => !isPeer(each))),
    peerDependencies: versions(peers),
    peerDependenciesMeta: Object.fromEntries(peers.map((each) => [each, { optional: true }])),
  }
}

const versionOf = ({ dependencies }: RootManifest, name: string): string => {
  const version = dependencies[name]
  if (version === undefined) throw new Error(`dist/ imports ${name}, which is not in the dependencies of package.json`)
  return version
}
