// Signs users in through OpenID Connect: authorization code with PKCE. The pending sign-in is in a cookie of the browser, so that any
// server can complete it; state, nonce and verifier tie the provider's answer to that browser.

import * as client from "openid-client"
import type { SecretSource } from "../../core/model/ports.ts"
import { type OidcSettings, type Role, type RoleGrant, rolesOf } from "../../core/settings/oidc.ts"
import type { KeyScope } from "../../store/contract/keys.ts"
import { ApiError, unavailable } from "../shared/errors.ts"

export const CALLBACK_PATH = "/ui/sign-in/callback"
const COOKIE = "ork_oidc"
const PENDING_SECONDS = 600

export interface User {
  /** Issuer's id of the user. */
  sub: string
  name: string
  roles: readonly RoleGrant[]
}

/** Scopes of the keys that a role corresponds to. */
export const ROLE_SCOPES = {
  viewer: ["read"],
  operator: ["trigger"],
  author: ["author"],
  admin: ["admin"],
} as const satisfies Record<Role, readonly KeyScope[]>

export class Oidc {
  readonly #settings: OidcSettings
  readonly #secret: SecretSource
  readonly #fetch: client.CustomFetch | undefined
  #discovering: Promise<client.Configuration> | null = null

  constructor(settings: OidcSettings, secret: SecretSource, fetch?: client.CustomFetch) {
    this.#settings = settings
    this.#secret = secret
    this.#fetch = fetch
  }

  /** Returns the address of the provider's form, and the cookie that belongs to it. `origin`: of this server. */
  async begin(origin: string, secure: boolean): Promise<{ location: string; cookie: string }> {
    const configuration = await this.#discover()
    const pending = { state: client.randomState(), nonce: client.randomNonce(), verifier: client.randomPKCECodeVerifier() }
    const location = client.buildAuthorizationUrl(configuration, {
      redirect_uri: origin + CALLBACK_PATH,
      scope: this.#settings.scopes,
      state: pending.state,
      nonce: pending.nonce,
      code_challenge: await client.calculatePKCECodeChallenge(pending.verifier),
      code_challenge_method: "S256",
    })
    const value = Object.values(pending).join("~")
    return { location: location.href, cookie: pendingCookie(value, PENDING_SECONDS, secure) }
  }

  /** Exchanges the code of the provider's answer for a user. Throws UNAUTHORIZED when the answer is not for this browser. */
  async complete(answer: URL, cookies: string | undefined): Promise<User> {
    const [state, nonce, verifier] = pendingOf(cookies)
    if (state === undefined || nonce === undefined || verifier === undefined) {
      throw new ApiError("UNAUTHORIZED", "the sign-in took too long, or began in another browser; begin again")
    }
    const configuration = await this.#discover()
    const checks = { expectedState: state, expectedNonce: nonce, pkceCodeVerifier: verifier, idTokenExpected: true }
    const tokens = await client.authorizationCodeGrant(configuration, answer, checks).catch((error: unknown) => {
      throw new ApiError("UNAUTHORIZED", `the provider did not sign you in: ${reasonOf(error)}`)
    })
    const { sub, ...inToken } = tokens.claims()!
    const claims: { [name: string]: unknown } =
      inToken[this.#settings.groupsClaim] === undefined && configuration.serverMetadata().userinfo_endpoint !== undefined
        ? { ...inToken, ...(await this.#userInfo(configuration, tokens.access_token, sub)) }
        : inToken
    const { name, preferred_username: username, email } = claims
    const shown = [name, username, email].find((each) => typeof each === "string" && each !== "")
    const groups = claims[this.#settings.groupsClaim]
    const roles = rolesOf(this.#settings, Array.isArray(groups) ? groups.map(String) : [])
    if (roles.length === 0) throw new ApiError("FORBIDDEN", "none of your groups has a role in Ork; ask its administrator")
    return { sub, name: typeof shown === "string" ? shown : sub, roles }
  }

  /** Reads the user info, where many providers list the groups. */
  async #userInfo(configuration: client.Configuration, token: string, sub: string): Promise<client.UserInfoResponse> {
    return client.fetchUserInfo(configuration, token, sub).catch((error: unknown) => {
      throw new ApiError("UNAUTHORIZED", `the provider did not describe the user: ${reasonOf(error)}`)
    })
  }

  /** Discovers the provider once. A failed discovery is tried again with the next sign-in. */
  async #discover(): Promise<client.Configuration> {
    const { issuer, clientId, clientSecret } = this.#settings
    const discover = async (): Promise<client.Configuration> => {
      const secret = clientSecret === null ? undefined : await this.#secret(clientSecret)
      if (secret === null) throw new Error(`the secret ${clientSecret} is not set`)
      const authentication = secret === undefined ? client.None() : undefined
      const options = this.#fetch === undefined ? {} : { [client.customFetch]: this.#fetch }
      return client.discovery(new URL(issuer), clientId, secret, authentication, options)
    }
    this.#discovering ??= discover()
    try {
      return await this.#discovering
    } catch (error) {
      this.#discovering = null
      throw unavailable(`the OpenID provider cannot be used now: ${reasonOf(error)}`)
    }
  }
}

/**
 * Returns the cookie of a sign-in under way. It is also sent with the navigation back from the provider, unlike a Strict cookie. An
 * empty value removes it.
 */
export const pendingCookie = (value: string, seconds: number, secure: boolean): string =>
  `${COOKIE}=${value}; Path=/ui/sign-in; HttpOnly; SameSite=Lax; Max-Age=${seconds}${secure ? "; Secure" : ""}`

const pendingOf = (header: string | undefined): string[] => {
  const found = header?.split(";").find((part) => part.trim().startsWith(`${COOKIE}=`))
  return found === undefined
    ? []
    : found
        .trim()
        .slice(COOKIE.length + 1)
        .split("~")
}

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message.slice(0, 200) : String(error))
