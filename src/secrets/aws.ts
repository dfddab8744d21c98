// AWS Secrets Manager, through its own client and its usual chain of credentials (variables, profile, role of the machine or pod).
// AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_SECRETS_MANAGER are the client's own settings for another endpoint.

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
    throw new Error("it has no value")
  }

  #client(region: string): SecretsManagerClient {
    let client = this.#clients.get(region)
    if (client === undefined) this.#clients.set(region, (client = new SecretsManagerClient({ region })))
    return client
  }
}
