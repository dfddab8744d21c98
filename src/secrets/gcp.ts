// Google Secret Manager, through its own client in its REST mode, which needs no gRPC; credentials as the client finds them
// (GOOGLE_APPLICATION_CREDENTIALS, the login of gcloud, the service account of the machine or pod).

import { SecretManagerServiceClient } from "@google-cloud/secret-manager"
import type { SecretUri } from "../core/secret-uris.ts"
import type { SecretManager } from "./secrets.ts"

type ClientOptions = NonNullable<ConstructorParameters<typeof SecretManagerServiceClient>[0]>

export class GcpSecrets implements SecretManager {
  readonly #client: SecretManagerServiceClient

  constructor(options: ClientOptions = {}) {
    this.#client = new SecretManagerServiceClient({ fallback: true, ...options })
  }

  async read(uri: SecretUri): Promise<string> {
    if (uri.kind !== "gcp") throw new Error("not a gcp:// address")
    const [{ payload }] = await this.#client.accessSecretVersion({ name: uri.name })
    const data = payload?.data
    if (data === undefined || data === null) throw new Error("it has no value")
    return typeof data === "string" ? data : Buffer.from(data).toString("utf8")
  }
}
