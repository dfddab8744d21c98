// Reads secrets from Google Secret Manager by REST, with application default credentials (GOOGLE_APPLICATION_CREDENTIALS, the login of
// gcloud, the service account of the machine or pod), through the proxy in HTTPS_PROXY if there is one.
// https://cloud.google.com/secret-manager/docs/reference/rest/v1/projects.secrets.versions/access

import { setTimeout as delay } from "node:timers/promises"
import { GoogleAuth } from "google-auth-library"
import { EnvHttpProxyAgent, fetch } from "undici"
import type { SecretUri } from "../core/settings/secret-uris.ts"
import type { SecretManager } from "./secrets.ts"

const GOOGLE = "https://secretmanager.googleapis.com"
const SCOPE = "https://www.googleapis.com/auth/cloud-platform"
/** Limit of one request. `Secrets` limits the time of all. */
const REQUEST_MS = 20_000
/** Statuses of a service that is overloaded or restarts. */
const TRANSIENT = [429, 503]
const MAX_RETRIES = 3

export interface GcpOptions {
  auth?: Pick<GoogleAuth, "getRequestHeaders">
  endpoint?: string
  /** Pause before the first repetition; each later one is twice as long. */
  retryDelayMs?: number
}

export class GcpSecrets implements SecretManager {
  readonly #auth: NonNullable<GcpOptions["auth"]>
  readonly #endpoint: string
  readonly #retryDelayMs: number
  readonly #dispatcher = new EnvHttpProxyAgent()

  constructor({ auth = new GoogleAuth({ scopes: SCOPE }), endpoint = GOOGLE, retryDelayMs = 2000 }: GcpOptions = {}) {
    this.#auth = auth
    this.#endpoint = endpoint
    this.#retryDelayMs = retryDelayMs
  }

  async read(uri: SecretUri): Promise<string> {
    if (uri.kind !== "gcp") throw new Error("not a gcp:// address")
    const { status, body } = await this.#access(uri.name)
    if (status !== 200) throw new Error(messageOf(status, body))
    const { payload } = JSON.parse(body) as { payload?: { data?: string } }
    // An empty value has no field `data`.
    if (payload === undefined) throw new Error("the secret has no value")
    return Buffer.from(payload.data ?? "", "base64").toString("utf8")
  }

  async #access(name: string): Promise<{ status: number; body: string }> {
    const address = `${this.#endpoint}/v1/${name}:access`
    for (let retries = 0; ; retries++) {
      const headers = Object.fromEntries(await this.#auth.getRequestHeaders(address))
      const signal = AbortSignal.timeout(REQUEST_MS)
      const response = await fetch(address, { headers, signal, dispatcher: this.#dispatcher, redirect: "error" })
      const body = await response.text()
      if (!TRANSIENT.includes(response.status) || retries === MAX_RETRIES) return { status: response.status, body }
      await delay(this.#retryDelayMs * 2 ** retries)
    }
  }
}

const messageOf = (status: number, body: string): string => {
  try {
    const { error } = JSON.parse(body) as { error: { message: string; status: string } }
    return `${status} ${error.status}: ${error.message}`
  } catch {
    return `status ${status}: ${body.slice(0, 200)}`
  }
}
