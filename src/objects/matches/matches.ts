// Finds the files and objects that fit a pattern.

import { realpath } from "node:fs/promises"
import { localMatches } from "./local-matches.ts"
import { OpenStores } from "./open-stores.ts"
import { omitUndefined } from "../../core/values/omit-undefined.ts"
import { fitsPattern, literalParts, parsePathPattern, type PathPattern } from "../../core/settings/path-pattern.ts"
import type { ObjectStore } from "../objects.ts"

export interface Match {
  /** Absolute path, or address of the object. */
  path: string
  /** Names the content: another content has another version. */
  version: string
  /** When it was written or moved there, in epoch milliseconds. */
  changedAt: number
  /** Nobody is writing it any more. False: unknown, as for files. */
  complete: boolean
}

export interface MatchFinderOptions {
  /** Opens an object store by its address. */
  openObjects(address: string): Promise<ObjectStore>
  /** Folder whose files never match: that of the server. */
  dataDir: string
}

export interface FindOptions {
  /** Folder in the data folder whose files match nevertheless. */
  ownFolder?: string | undefined
  /** Aborts the search. */
  signal?: AbortSignal
}

const PAGE = 1000

export class MatchFinder {
  readonly #options: MatchFinderOptions
  readonly #stores: OpenStores

  constructor(options: MatchFinderOptions) {
    this.#options = options
    this.#stores = new OpenStores((address) => options.openObjects(address))
  }

  find(pattern: string, options: FindOptions = {}): AsyncIterable<Match> {
    const parsed = parsePathPattern(pattern)
    if (parsed === null) throw new Error(`${pattern} is not a valid pattern`)
    return parsed.store === null ? this.#files(parsed, options) : this.#objects(parsed.store, parsed, options)
  }

  async *#files({ parts }: PathPattern, { ownFolder, signal }: FindOptions): AsyncGenerator<Match> {
    const excluded = await realFolder(this.#options.dataDir)
    const except = ownFolder === undefined ? undefined : await realFolder(ownFolder)
    yield* localMatches(parts, omitUndefined({ excluded, except, signal }))
  }

  async *#objects(address: string, pattern: PathPattern, { signal }: FindOptions): AsyncGenerator<Match> {
    const store = await this.#stores.get(address)
    const prefix = literalParts(pattern)
      .map((part) => `${part}/`)
      .join("")
    for (let after = ""; ;) {
      signal?.throwIfAborted()
      const page = await store.listObjects!(prefix, { after, limit: PAGE })
      for (const { key, ...object } of page) {
        if (fitsPattern(pattern.parts, key.split("/"))) yield { path: pattern.root + key, ...object, complete: true }
      }
      if (page.length < PAGE) return
      after = page.at(-1)!.key
    }
  }
}

const realFolder = (folder: string): Promise<string> => realpath(folder).catch(() => folder)
