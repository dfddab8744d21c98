// Validates keys and prefixes, the same for every backend. No valid key leads out of the store.

const checkParts = (text: string, what: string): void => {
  const bad =
    text.startsWith("/") || text.includes("\0") || text.split("/").some((part) => part === "" || part === "." || part === "..")
  if (bad) throw new Error(`bad object ${what} ${JSON.stringify(text)}: parts between "/" must not be empty, "." or ".."`)
}

export const checkKey = (key: string): string => {
  checkParts(key, "key")
  return key
}

export const checkPrefix = (prefix: string): string => {
  if (prefix === "") return prefix
  if (!prefix.endsWith("/")) throw new Error(`bad object prefix ${JSON.stringify(prefix)}: it must end in "/"`)
  checkParts(prefix.slice(0, -1), "prefix")
  return prefix
}

/** Validates a prefix to delete; the empty prefix, which is the whole store, is rejected. */
export const checkDeletedPrefix = (prefix: string): string => {
  if (prefix === "") throw new Error("the prefix to delete must not be empty")
  return checkPrefix(prefix)
}
