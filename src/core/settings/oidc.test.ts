import { expect, test } from "vitest"
import { parseOidc, roleOf } from "./oidc.ts"

const SETTING = { issuer: "https://login.example.com", client_id: "ork", roles: { viewer: ["*"], admin: ["ops"] } }

test("a user has the highest role of its groups", () => {
  const settings = parseOidc(SETTING)!
  expect(roleOf(settings, [])).toBe("viewer")
  expect(roleOf(settings, ["dev", "ops"])).toBe("admin")
  expect(roleOf(parseOidc({ ...SETTING, roles: { author: ["dev"] } })!, ["ops"])).toBeNull()
})

test.each([
  ["an unknown field", { ...SETTING, clientid: "x" }],
  ["no issuer", { ...SETTING, issuer: undefined }],
  ["plain HTTP", { ...SETTING, issuer: "http://login.example.com" }],
  ["an unknown role", { ...SETTING, roles: { root: ["ops"] } }],
  ["scopes without openid", { ...SETTING, scopes: "email" }],
  ["no object", "https://login.example.com"],
])("%s is rejected", (_name, setting) => {
  expect(parseOidc(setting)).toBeNull()
})
