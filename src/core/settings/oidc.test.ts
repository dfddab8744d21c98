import { expect, test } from "vitest"
import { describeRoles, parseOidc, rolesOf } from "./oidc.ts"

const SETTING = { issuer: "https://login.example.com", client_id: "ork", roles: { viewer: ["*"], admin: ["ops"] } }

test("a user has the highest role of its groups", () => {
  const settings = parseOidc(SETTING)!
  expect(rolesOf(settings, [])).toEqual([{ role: "viewer", limits: null }])
  expect(rolesOf(settings, ["dev", "ops"])).toEqual([{ role: "admin", limits: null }])
  expect(rolesOf(parseOidc({ ...SETTING, roles: { author: ["dev"] } })!, ["ops"])).toEqual([])
})

test("a role can be limited to workflows, next to a lower role for all", () => {
  const sales = { group: "sales", role: "operator", workflows: ["sales-*"], tags: ["sales"] }
  const settings = parseOidc({ ...SETTING, roles: [{ group: "*", role: "viewer" }, { group: "ops", role: "admin" }, sales] })!
  const limited = { role: "operator", limits: { workflows: ["sales-*"], tags: ["sales"] } }
  expect(rolesOf(settings, ["sales"])).toEqual([limited, { role: "viewer", limits: null }])
  expect(rolesOf(settings, ["sales", "ops"])).toEqual([{ role: "admin", limits: null }])
  expect(describeRoles(rolesOf(settings, ["sales"]))).toBe("operator for sales-* with tag sales, viewer")
})

test.each([
  ["an unknown field", { ...SETTING, clientid: "x" }],
  ["no issuer", { ...SETTING, issuer: undefined }],
  ["plain HTTP", { ...SETTING, issuer: "http://login.example.com" }],
  ["an unknown role", { ...SETTING, roles: { root: ["ops"] } }],
  ["an unknown field of a role", { ...SETTING, roles: [{ group: "ops", role: "admin", workflow: ["x"] }] }],
  ["an empty list of workflows", { ...SETTING, roles: [{ group: "ops", role: "admin", workflows: [] }] }],
  ["a pattern that no workflow has", { ...SETTING, roles: [{ group: "ops", role: "admin", workflows: ["!x"] }] }],
  ["scopes without openid", { ...SETTING, scopes: "email" }],
  ["no object", "https://login.example.com"],
])("%s is rejected", (_name, setting) => {
  expect(parseOidc(setting)).toBeNull()
})
