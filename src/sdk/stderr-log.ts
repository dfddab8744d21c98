// The log of a program that gives none: warnings and errors on stderr.

import type { Logger } from "../engine/ports.ts"

export const stderrLog = (name: string): Logger => {
  const writeLine =
    (prefix: string) =>
    (fields: object, message: string): void =>
      void process.stderr.write(`${name}: ${prefix}${message} ${JSON.stringify(fields)}\n`)
  return { info: () => {}, warn: writeLine(""), error: writeLine("error: ") }
}
