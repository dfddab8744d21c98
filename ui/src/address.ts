// Validates query parameters. Invalid ones are dropped, so that a mistyped address still opens.

export type Search = Record<string, unknown>

export const text = (value: unknown): string | undefined => {
  if (typeof value === "number" || typeof value === "boolean") return String(value)
  return typeof value === "string" && value !== "" ? value : undefined
}

export const oneOf = <T extends string>(value: unknown, choices: readonly T[]): T | undefined =>
  choices.find((choice) => choice === value)

/** Removes fields without a value, so that they do not appear in the address. */
export const compact = <T extends object>(fields: T): Partial<T> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>

/** Returns the internal address to open after signing in; any other address leads to the start page. */
export const addressAfterSignIn = (next: string | undefined): string =>
  next !== undefined && /^\/(?![/\\])/.test(next) && !next.startsWith("/welcome") ? next : "/"
