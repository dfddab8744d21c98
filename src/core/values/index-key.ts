// Keys that users compute (`concurrency_key`, `cache.key`), as stores index them.

import { createHash } from "node:crypto"

/** Characters of a key that is stored as it is. An index of Postgres holds at most 2,704 bytes per entry. */
const MAX_LENGTH = 512

/** Returns the text itself, or the hash of a text that is too long or that a store cannot hold unchanged. */
export const indexKey = (text: string): string =>
  text.length <= MAX_LENGTH && text.isWellFormed() && !text.includes("\0")
    ? text
    : `sha256:${createHash("sha256").update(text, "utf16le").digest("hex")}`
