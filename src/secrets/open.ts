// Creates the secrets of a process from its configuration. Loads the client of a secret manager with the first secret that needs it.

import { resolve } from "node:path"
import type { Clock } from "../core/model/ports.ts"
import { explainMissing } from "../core/settings/optional-packages.ts"
import type { SecretUris } from "../core/settings/secret-uris.ts"
import { Secrets } from "./secrets.ts"

export interface SecretsConfig {
  secretsDir: string
  secrets: SecretUris
}

export interface SecretsEnvironment {
  env: { [name: string]: string | undefined }
  cwd: string
  clock: Clock
}

export const openSecrets = ({ secretsDir, secrets }: SecretsConfig, { env, cwd, clock }: SecretsEnvironment): Secrets =>
  new Secrets({
    env,
    folder: secretsDir === "" ? "" : resolve(cwd, secretsDir),
    uris: secrets,
    clock,
    async manager(kind) {
      switch (kind) {
        case "aws":
          return new (await import("./aws.ts").catch(explainMissing("the secret manager of aws://"))).AwsSecrets()
        case "gcp":
          return new (await import("./gcp.ts").catch(explainMissing("the secret manager of gcp://"))).GcpSecrets()
        default:
          return kind satisfies never
      }
    },
  })
