// Sign-in of users through OpenID Connect, as `oidc` in ork.yaml describes it, and the roles that their groups give them.

import { mapSetting } from "./map-setting.ts"
import { SECRET_NAME } from "./secret-uris.ts"

export const ROLES = ["viewer", "operator", "author", "admin"] as const
export type Role = (typeof ROLES)[number]

export interface OidcSettings {
  issuer: string
  clientId: string
  /** Name of the secret with the client's secret; null: a public client. */
  clientSecret: string | null
  /** Claim of the ID token that lists the groups of the user. */
  groupsClaim: string
  scopes: string
  /** Groups by role; `*` stands for every user. */
  roles: Readonly<Record<Role, readonly string[]>>
}

export const OIDC_HINT =
  "an object with issuer (https://…), client_id, optionally client_secret (the name of a secret), scopes and groups_claim, and roles: lists of groups under viewer, operator, author and admin"

const KEYS = ["issuer", "client_id", "client_secret", "groups_claim", "scopes", "roles"]

/** Parses the setting; null when it is not valid. */
export const parseOidc = (value: unknown): OidcSettings | null => {
  const map = mapSetting(value)
  if (map === null || Object.keys(map).some((key) => !KEYS.includes(key))) return null
  const { issuer, client_id: clientId, client_secret: clientSecret = null } = map
  const { groups_claim: groupsClaim = "groups", scopes = "openid profile email" } = map
  const roles = parseRoles(map["roles"])
  if (typeof issuer !== "string" || !issuer.startsWith("https://") || !URL.canParse(issuer)) return null
  if (typeof clientId !== "string" || clientId === "") return null
  if (clientSecret !== null && !(typeof clientSecret === "string" && SECRET_NAME.test(clientSecret))) return null
  if (typeof groupsClaim !== "string" || typeof scopes !== "string" || !scopes.split(" ").includes("openid")) return null
  return roles === null ? null : { issuer, clientId, clientSecret, groupsClaim, scopes, roles }
}

const parseRoles = (value: unknown): OidcSettings["roles"] | null => {
  const map = mapSetting(value)
  if (map === null || Object.keys(map).some((role) => !(ROLES as readonly string[]).includes(role))) return null
  const lists = ROLES.map((role) => [role, map[role] ?? []] as const)
  const isValid = lists.every(([, groups]) => Array.isArray(groups) && groups.every((group) => typeof group === "string"))
  return isValid ? (Object.fromEntries(lists) as OidcSettings["roles"]) : null
}

/** Returns the highest role of a user with these groups; null when none of them has one. */
export const roleOf = ({ roles }: Pick<OidcSettings, "roles">, groups: readonly string[]): Role | null =>
  ROLES.findLast((role) => roles[role].some((group) => group === "*" || groups.includes(group))) ?? null
