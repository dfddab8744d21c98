// Formats instants in the time zone of the terminal (TZ), or in another one, such as a schedule's.

import type { Terminal } from "./output.ts"

type Env = Pick<Terminal, "env">

const isZone = (zone: string): boolean => {
  try {
    new Intl.DateTimeFormat("en", { timeZone: zone }).format()
    return true
  } catch {
    return false
  }
}

/** Returns the user's time zone. */
export const localZone = ({ env }: Env): string => {
  const named = env["TZ"] ?? ""
  return named !== "" && isZone(named) ? named : Intl.DateTimeFormat().resolvedOptions().timeZone
}

/** Formats an instant as `2026-01-31 10:00:00`; null as an empty text. */
export const timeText = (at: string | null, zone: string): string =>
  at === null
    ? ""
    : new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" }).format(new Date(at))

/** Formats an instant with the abbreviation of its zone, such as `2026-01-31 10:00:00 GMT+1`. */
export const zonedText = (at: string, zone: string): string => `${timeText(at, zone)} ${zoneName(zone, new Date(at))}`

/** Returns the abbreviation of a zone, such as `UTC` or `GMT+1`. */
const zoneName = (zone: string, at: Date): string =>
  new Intl.DateTimeFormat("en-US", { timeZone: zone, timeZoneName: "short" })
    .formatToParts(at)
    .find(({ type }) => type === "timeZoneName")!.value

/** Formats the times of a command's output in the user's zone. */
export const localTimes = (
  terminal: Env,
  now: number,
): { zone: string; text(at: string | null): string; header(name: string): string } => {
  const zone = localZone(terminal)
  const name = zoneName(zone, new Date(now))
  return { zone, text: (at) => timeText(at, zone), header: (title) => `${title} (${name})` }
}
