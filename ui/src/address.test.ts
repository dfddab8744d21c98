import { expect, test } from "vitest"
import { addressAfterSignIn } from "./address.ts"

const next = (place: string | undefined): URL => new URL(`/ui${addressAfterSignIn(place)}`, "http://ork.example")

test("the address after signing in is inside of the web UI", () => {
  expect(next("/jobs?queue=mail").href).toBe("http://ork.example/ui/jobs?queue=mail")
  for (const place of [
    undefined,
    "",
    "https://evil.example",
    "//evil.example",
    "/\\evil.example",
    "javascript:alert(1)",
    "@evil.example",
    ".evil.example",
  ]) {
    expect([place, next(place).href]).toEqual([place, "http://ork.example/ui/"])
  }
  for (const place of ["/\t/evil.example", "/\n\\evil.example", "/@evil.example", "/:80"]) {
    expect([place, next(place).origin]).toEqual([place, "http://ork.example"])
  }
})
