// Values as literals of SQL. A statement without parameters is one message to Postgres, with any driver or library: `now()` is then the
// time of the statement exactly when it is not in a transaction, which the functions of schema/010-transactions.ts check.

/** Returns a value as a literal, whatever `standard_conforming_strings` is. It contains no `?`, which some libraries replace. */
export const literal = (value: string | number | null): string => {
  if (value === null) return "NULL"
  if (typeof value === "number") return String(value)
  return `E'${value.replaceAll(/[\\'?]/g, (character) => ESCAPES[character as keyof typeof ESCAPES])}'`
}

const ESCAPES = { "\\": "\\\\", "'": "''", "?": String.raw`\x3F` } as const
