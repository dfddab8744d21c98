import { expect, test } from "vitest"
import { localZone, timeText, zonedText } from "./times.ts"

test("an instant is shown in the zone of the terminal, with the rules of its day", () => {
  const zone = localZone({ env: { TZ: "Europe/Berlin" } })
  expect(timeText("2026-01-31T23:30:00.000Z", zone)).toBe("2026-02-01 00:30:00")
  expect(timeText("2026-07-31T23:30:00.000Z", zone)).toBe("2026-08-01 01:30:00")
  expect(zonedText("2026-01-31T10:00:00.000Z", zone)).toBe("2026-01-31 11:00:00 GMT+1")
  expect(zonedText("2026-01-31T10:00:00.000Z", "UTC")).toBe("2026-01-31 10:00:00 UTC")
  expect(timeText(null, zone)).toBe("")
})

test("a TZ that is no zone counts as unset", () => {
  expect(localZone({ env: { TZ: ":/etc/nowhere" } })).toBe(localZone({ env: {} }))
})
