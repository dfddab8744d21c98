// Sign-in of users through OpenID Connect, as `oidc` in ork.yaml describes it, and the roles that their groups give them.

import { isObject } from "../values/json.ts"
import { describeLimits, parseLimits, type WorkflowLimits } from "./workflow-limits.ts"
import { mapSetting } from "./map-setting.ts"
import { SECRET_NAME } from "./secret-uris.ts"

export const ROLES = ["viewer", "operator", "author", "admin"] as const
export type Role = (typeof ROLES)[number]

/** Role of a user, for some workflows; `limits` null: for everything. */
export interface RoleGrant {
  role: Role
  limits: WorkflowLimits | null
}

export interface OidcSettings {
  issuer: string
  clientId: string
  /** Name of the secret with the client's secret; null: a public client. */
  clientSecret: string | null
  /** Claim of the ID token that lists the groups of the user. */
  groupsClaim: string
  scopes: string
  /** The group `*` stands for every user. */
  roles: readonly (RoleGrant & { group: string })[]
}

export const OIDC_HINT =
  "an object with issuer (https://…), client_id, optionally client_secret (the name of a secret), scopes and groups_claim, and roles: lists of groups under viewer, operator, author and admin, or a list of objects with group, role, and optionally workflows and tags"

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
  const list = Array.isArray(value) ? value : listOf(mapSetting(value))
  const roles = list?.map(parseRole) ?? []
  return list !== null && roles.every((each) => each !== null) ? roles : null
}

/** Converts lists of groups by role to entries. */
const listOf = (map: { readonly [role: string]: unknown } | null): unknown[] | null => {
  const lists = Object.entries(map ?? {})
  if (map === null || !lists.every(([, groups]) => Array.isArray(groups))) return null
  return lists.flatMap(([role, groups]) => (groups as unknown[]).map((group) => ({ role, group })))
}

const isRole = (value: unknown): value is Role => (ROLES as readonly unknown[]).includes(value)

const parseRole = (value: unknown): OidcSettings["roles"][number] | null => {
  if (!isObject(value)) return null
  const { group, role, ...rest } = value
  const limits = parseLimits(rest)
  if (typeof group !== "string" || !isRole(role) || limits === undefined) return null
  return { group, role, limits }
}

/** Returns the roles of a user with these groups, highest first. Leaves out those that a higher role without limits includes. */
export const rolesOf = ({ roles }: Pick<OidcSettings, "roles">, groups: readonly string[]): RoleGrant[] => {
  const found = roles.filter(({ group }) => group === "*" || groups.includes(group))
  const highest = ROLES.findLast((role) => found.some((each) => each.role === role && each.limits === null))
  const rank = (role: Role | undefined): number => (role === undefined ? -1 : ROLES.indexOf(role))
  const limited = found.filter(({ role, limits }) => limits !== null && rank(role) > rank(highest))
  return [
    ...limited.map(({ role, limits }) => ({ role, limits })),
    ...(highest === undefined ? [] : [{ role: highest, limits: null }]),
  ]
}

/** Describes roles for people: `operator for sales-*`. */
export const describeRoles = (roles: readonly RoleGrant[]): string =>
  roles.map(({ role, limits }) => (limits === null ? role : `${role} for ${describeLimits(limits)}`)).join(", ")
