// Reads secrets from Google Secret Manager over REST, without gRPC, with application default credentials
// (GOOGLE_APPLICATION_CREDENTIALS, the login of gcloud, the service account of the machine or pod).

import { SecretManagerServiceClient } from "@google-cloud/secret-manager"
import { GoogleAuth } from "google-auth-library"
import type { SecretUri } from "../core/settings/secret-uris.ts"
import type { SecretManager } from "./secrets.ts"

type ClientOptions = NonNullable<ConstructorParameters<typeof SecretManagerServiceClient>[0]>

const SCOPE = "https://www.googleapis.com/auth/cloud-platform"

export class GcpSecrets implements SecretManager {
  readonly #options: ClientOptions & { auth: GoogleAuth }
  #client: SecretManagerServiceClient | null = null

  constructor(options: ClientOptions = {}) {
    this.#options = { fallback: true, auth: new GoogleAuth({ scopes: SCOPE }), ...options }
  }

  async read(uri: SecretUri): Promise<string> {
    if (uri.kind !== "gcp") throw new Error("not a gcp:// address")
    // Loads credentials first: the client would report missing ones by an unhandled rejection, which ends the process.
    await this.#options.auth.getClient()
    this.#client ??= new SecretManagerServiceClient(this.#options)
    const [{ payload }] = await this.#client.accessSecretVersion({ name: uri.name })
    const data = payload?.data
    if (data === undefined || data === null) throw new Error("the secret has no value")
    return typeof data === "string" ? data : Buffer.from(data).toString("utf8")
  }
}
