import { expect, test } from "vitest"
import { explainMissing, MissingPackage } from "./optional-packages.ts"

const failed = (feature: Parameters<typeof explainMissing>[0], error: unknown): unknown => {
  try {
    return explainMissing(feature)(error)
  } catch (thrown) {
    return thrown
  }
}

test.each([
  "Cannot find package 'pg' imported from /app/node_modules/ork/dist/store/postgres/connection/connection.js",
  `Could not resolve: "pg". Maybe you need to "bun install"?`,
  `Could not find package 'pg' from referrer 'file:///app/a.js'.`,
])("a package that is not installed is named with the command that installs it: %s", (message) => {
  expect(failed("Postgres", new Error(message))).toEqual(
    new MissingPackage("Postgres needs the package pg; install with: npm install pg"),
  )
})

test("all packages of a feature are named at once", () => {
  const error = new Error("Cannot find package '@opentelemetry/resources' imported from /app/a.js")
  expect((failed("OpenTelemetry tracing", error) as Error).message).toMatch(
    /^OpenTelemetry tracing needs the packages (@opentelemetry\S+ \S+ \S+); install with: npm install \1$/,
  )
})

test("other errors are passed on", () => {
  for (const error of [new Error("Cannot find package 'other' imported from a.js"), new Error("pg is broken"), "text"]) {
    expect(failed("Postgres", error)).toBe(error)
  }
})
