import { expect, test } from "vitest"
import { code, CodeMissing, mayReload } from "./code.ts"

test("code that cannot be loaded is an error of its own, which the router does not answer with a reload", async () => {
  const load = code(() => Promise.reject(new TypeError("Failed to fetch dynamically imported module: /ui/assets/x.js")))
  await expect(load()).rejects.toThrow(CodeMissing)
  await expect(load()).rejects.toThrow("This part of the web UI could not be loaded.")
  expect(await code(async () => 1)()).toBe(1)
})

test("the page reloads itself once, not in a loop", () => {
  expect(mayReload(null, 1000)).toBe(true)
  expect(mayReload("1000", 5000)).toBe(false)
  expect(mayReload("1000", 60_000)).toBe(true)
})
