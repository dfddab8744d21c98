// The log of a server: JSON lines on standard error, or short readable lines if that is a terminal.

import { type Logger, pino } from "pino"

const LEVELS: Readonly<Record<number, string>> = { 20: "debug", 30: "info", 40: "WARN", 50: "ERROR", 60: "FATAL" }
/** Fields that readable lines omit. */
const OMITTED = new Set(["level", "time", "msg", "pid", "hostname", "part"])

/** Formats a line such as `03:24:24 WARN failed to renew the lease; trying again error=…`. */
export const readableLine = (json: string): string => {
  const entry = JSON.parse(json) as { level: number; time: number; msg?: string } & Record<string, unknown>
  const fields = Object.entries(entry)
    .filter(([name]) => !OMITTED.has(name))
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`)
  const level = entry.level === 30 ? [] : [LEVELS[entry.level] ?? String(entry.level)]
  return `${[new Date(entry.time).toTimeString().slice(0, 8), ...level, entry.msg ?? "", ...fields].join(" ")}\n`
}

export const createLog = (out: NodeJS.WriteStream, level: string): Logger =>
  out.isTTY === true
    ? pino({ level }, { write: (line: string) => void out.write(readableLine(line)) })
    : pino({ level }, { write: (line: string) => void out.write(line) })
