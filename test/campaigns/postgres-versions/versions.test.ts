import { expect, it } from "vitest"
import { newestOfEach } from "./versions.ts"

it("chooses the newest version of each supported major version, whatever the order of their publication", () => {
  const published = [
    "13.23.0-beta.16",
    "14.3.0-alpha.2",
    "15.9.0-beta.14",
    "15.10.0-beta.15",
    "14.20.0-beta.15",
    "14.20.0-beta.16",
  ]
  expect(newestOfEach([...published, "15.8.0-beta.17"], 14)).toEqual(["14.20.0-beta.16", "15.10.0-beta.15"])
})
