import { expect, test } from "vitest"
import { parseSmtp } from "./smtp.ts"

test.each([
  ["smtp://mail.example.com", { host: "mail.example.com", port: 587, user: null, tls: false }],
  ["smtps://ork%40example.com@mail.example.com", { host: "mail.example.com", port: 465, user: "ork@example.com", tls: true }],
  ["smtp://[::1]:2525", { host: "::1", port: 2525, user: null, tls: false }],
  ["smtp://ork:secret@mail.example.com", null],
  ["https://mail.example.com", null],
  ["smtp://mail.example.com/x", null],
  ["mail.example.com", null],
  [25, null],
])("the address %s of an SMTP server is %j", (value, settings) => {
  expect(parseSmtp(value)).toEqual(settings)
})
