// Packages that users install only for the features that need them. scripts/pack.ts makes them optional peers of Ork's packages.

export const OPTIONAL_PACKAGES = {
  Postgres: ["pg"],
  "an object store at s3://": ["@aws-sdk/client-s3"],
  "an object store at gs://": ["google-auth-library"],
  "the secret manager of aws://": ["@aws-sdk/client-secrets-manager"],
  "the secret manager of gcp://": ["google-auth-library"],
  "the executor kubernetes": ["@kubernetes/client-node"],
  "the executor cloudrun": ["google-auth-library"],
  "the setting smtp": ["nodemailer"],
  "ork mcp": ["@modelcontextprotocol/sdk"],
  "OpenTelemetry tracing": ["@opentelemetry/exporter-trace-otlp-http", "@opentelemetry/resources", "@opentelemetry/sdk-trace"],
} as const satisfies Record<string, readonly string[]>

/** A feature needs a package that is not installed. */
export class MissingPackage extends Error {
  override readonly name = "MissingPackage"
}

/**
 * Returns a handler for `import(…).catch(…)` that explains how to install the packages of the feature. It passes other errors on.
 */
export const explainMissing =
  (feature: keyof typeof OPTIONAL_PACKAGES) =>
  (error: unknown): never => {
    const packages: readonly string[] = OPTIONAL_PACKAGES[feature]
    const isMissing = error instanceof Error && packages.some((name) => isAbout(error, name))
    if (!isMissing) throw error
    const names = packages.join(" ")
    const noun = packages.length === 1 ? "the package" : "the packages"
    throw new MissingPackage(`${feature} needs ${noun} ${names}; install with: npm install ${names}`, { cause: error })
  }

/** Returns whether an error is about a package. Node, Bun and Deno word the message differently; all of them quote the name. */
const isAbout = ({ message }: Error, name: string): boolean =>
  /cannot find (?:package|module)|could not (?:find|resolve)|not (?:a dependency|found)/i.test(message) &&
  [`'${name}'`, `"${name}"`].some((quoted) => message.includes(quoted))
