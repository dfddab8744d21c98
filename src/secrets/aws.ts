// Reads secrets from AWS Secrets Manager with the credentials of the standard chain (environment, profile, role of the machine or pod).
// AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_SECRETS_MANAGER select another endpoint.

import { GetSecretValueCommand, SecretsManagerClient } from "@aws-sdk/client-secrets-manager"
import type { SecretUri } from "../core/settings/secret-uris.ts"
import type { SecretManager } from "./secrets.ts"

export class AwsSecrets implements SecretManager {
  readonly #clients = new Map<string, SecretsManagerClient>()

  async read(uri: SecretUri): Promise<string> {
    if (uri.kind !== "aws") throw new Error("not an aws:// address")
    const { SecretString, SecretBinary } = await this.#client(uri.region).send(new GetSecretValueCommand({ SecretId: uri.id }))
    if (SecretString !== undefined) return SecretString
    if (SecretBinary !== undefined) return Buffer.from(SecretBinary).toString("utf8")
    throw new Error("the secret has no value")
  }

  #client(region: string): SecretsManagerClient {
    let client = this.#clients.get(region)
    if (client === undefined) this.#clients.set(region, (client = new SecretsManagerClient({ region })))
    return client
  }
}
