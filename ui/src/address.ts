// What the address after `?` may hold on each page. What does not fit is left out, so a mistyped address still opens.

export type Search = Record<string, unknown>

export const text = (value: unknown): string | undefined => {
  if (typeof value === "number" || typeof value === "boolean") return String(value)
  return typeof value === "string" && value !== "" ? value : undefined
}

export const oneOf = <T extends string>(value: unknown, choices: readonly T[]): T | undefined =>
  choices.find((choice) => choice === value)

export const wholeNumber = (value: unknown): number | undefined => {
  const number = typeof value === "string" ? Number(value) : value
  return typeof number === "number" && Number.isSafeInteger(number) ? number : undefined
}

/** Without the fields that have no value, so that they do not stand in the address. */
export const compact = <T extends object>(fields: T): Partial<T> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Partial<T>

/** A place inside the page to go on to after signing in; anything else leads to the start. */
export const placeAfter = (next: string | undefined): string =>
  next !== undefined && /^\/(?![/\\])/.test(next) && !next.startsWith("/welcome") ? next : "/"
