// Finds files of this machine, and objects in buckets (`s3://`, `gs://`) with the credentials of the server, by a path or a pattern.

import { stat } from "node:fs"
import { isWildcard, PATH_PATTERN_HINT, parsePathPattern } from "../../core/settings/path-pattern.ts"
import { MatchFinder, type MatchFinderOptions } from "../../objects/matches/matches.ts"
import { OpenStores } from "../../objects/matches/open-stores.ts"
import { TooManyEntries } from "../../objects/matches/walk.ts"
import { ObjectStoreError } from "../../objects/errors.ts"
import { BrokenCondition } from "./broken-condition.ts"

const MAX_FOUND = 1000
const SEARCH_MS = 30_000

export class Files {
  readonly #matches: MatchFinder
  readonly #buckets: OpenStores

  constructor(options: MatchFinderOptions) {
    this.#matches = new MatchFinder(options)
    this.#buckets = new OpenStores((address) => options.openObjects(address))
  }

  /** Returns existing files or objects, sorted, at most 1,000. Throws BrokenCondition when waiting cannot help. */
  async find(path: string, ownFolder?: string): Promise<string[]> {
    // Thousands of tasks may wait for files, so that their paths are not parsed for each check.
    if (path.startsWith("/") && !isWildcard(path)) return (await fileExists(path)) ? [path] : []
    const pattern = parsePathPattern(path)
    if (pattern === null) throw new BrokenCondition(`${path} is not ${PATH_PATTERN_HINT}`)
    const { store, parts, root } = pattern
    try {
      if (store === null || parts.some(isWildcard)) return await this.#match(path, ownFolder)
      const key = parts.join("/")
      return (await (await this.#buckets.get(store)).size(key)) === null ? [] : [root + key]
    } catch (error) {
      if (isPermanent(error)) throw new BrokenCondition((error as Error).message, { cause: error })
      throw error
    }
  }

  async #match(pattern: string, ownFolder?: string): Promise<string[]> {
    const found: string[] = []
    const signal = AbortSignal.timeout(SEARCH_MS)
    try {
      for await (const { path } of this.#matches.find(pattern, { ownFolder, signal })) {
        found.push(path)
        if (found.length >= MAX_FOUND) break
      }
    } catch (error) {
      if (signal.aborted) throw new Error(`the search for ${pattern} took more than ${SEARCH_MS / 1000} s; name more folders`)
      throw error
    }
    return found.sort()
  }
}

const MISSING = new Set(["ENOENT", "ENOTDIR"])

/** Returns whether a file or folder exists. Rejects when the system does not say. */
const fileExists = (path: string): Promise<boolean> =>
  // A callback costs a fraction of a promise of the system, and thousands of tasks may wait.
  new Promise((resolve, reject) => {
    stat(path, (error) => {
      if (error === null) resolve(true)
      else if (MISSING.has(error.code ?? "")) resolve(false)
      else reject(error)
    })
  })

/** Errors of rights and addresses of buckets, and patterns that fit too much; a store that does not respond may work again soon. */
const isPermanent = (error: unknown): boolean => {
  if (error instanceof TooManyEntries) return true
  if (error instanceof ObjectStoreError) return !error.transient
  const status = (error as { $metadata?: { httpStatusCode?: number } } | null)?.$metadata?.httpStatusCode
  return status !== undefined && [301, 400, 401, 403].includes(status)
}
