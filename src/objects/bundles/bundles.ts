// The files of a workflow's version: one archive in the object store under its hash, unpacked once per machine to run functions from,
// and once per run into its working folder. Unpacking is a rename of a whole folder: nobody ever sees half of it.

import { createHash, randomBytes } from "node:crypto"
import { constants } from "node:fs"
import { cp, mkdir, rename, rm, stat, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import type { ObjectStore } from "../objects.ts"
import { readTar, type TarFile, writeTar } from "./tar.ts"

export const MAX_BUNDLE_BYTES = 16 * 2 ** 20

export const BUNDLES_PREFIX = "bundles/"

/** A folder of its own, so that it can be deleted. */
export const bundlePrefix = (hash: string): string => `${BUNDLES_PREFIX}${hash}/`

export const bundleKey = (hash: string): string => `${bundlePrefix(hash)}files.tar`

/** null: not the key of a bundle. */
export const bundleHash = (key: string): string | null => /^bundles\/([0-9a-f]{64})\/files\.tar$/.exec(key)?.[1] ?? null

export interface Bundle {
  hash: string
  bytes: Buffer
}

export const makeBundle = (files: readonly TarFile[]): Bundle => {
  const bytes = writeTar(files)
  return { hash: hashOf(bytes), bytes }
}

export const hashOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex")

/** Stored, unless it is there already. */
export const storeBundle = async (objects: Pick<ObjectStore, "size" | "put">, { hash, bytes }: Bundle): Promise<void> => {
  if ((await objects.size(bundleKey(hash))) === null) await objects.put(bundleKey(hash), bytes)
}

/** A run's folder needs no second look once it was made; so many are remembered. */
const KEPT = 1000

export interface BundleFoldersOptions {
  /** Unpacked bundles lie below it. */
  dataDir: string
  /** null: there is no such bundle any more. */
  read(hash: string): Promise<Uint8Array | null>
}

export class BundleFolders {
  readonly #options: BundleFoldersOptions
  /** By folder: under way or done. */
  readonly #made = new Map<string, Promise<void>>()

  constructor(options: BundleFoldersOptions) {
    this.#options = options
  }

  /** The folder that holds this machine's own copy; its files are not to be changed. */
  async folder(hash: string): Promise<string> {
    const folder = bundleFolder(this.#options.dataDir, hash)
    await this.#once(folder, (draft) => this.#unpack(hash, draft))
    return folder
  }

  /** A folder of a run's own with a copy of the files, unless it is there already. */
  async copyTo(folder: string, hash: string): Promise<void> {
    const source = await this.folder(hash)
    await this.#once(folder, (draft) => cp(source, draft, { recursive: true, mode: constants.COPYFILE_FICLONE }))
  }

  #once(folder: string, fill: (draft: string) => Promise<void>): Promise<void> {
    let making = this.#made.get(folder)
    if (making === undefined) {
      making = makeWhole(folder, fill)
      this.#made.set(folder, making)
      making.catch(() => this.#made.delete(folder))
      if (this.#made.size > KEPT) this.#made.delete(this.#made.keys().next().value!)
    }
    return making
  }

  async #unpack(hash: string, draft: string): Promise<void> {
    const bytes = await this.#options.read(hash)
    if (bytes === null)
      throw new Error(`the files of this version (bundle ${hash.slice(0, 12)}) are gone from the object store`)
    if (hashOf(bytes) !== hash) throw new Error(`the bundle ${hash.slice(0, 12)} in the object store is damaged: deploy anew`)
    for (const file of readTar(bytes)) {
      const path = join(draft, file.path)
      await mkdir(dirname(path), { recursive: true })
      await writeFile(path, file.bytes, { mode: file.executable ? 0o755 : 0o644 })
    }
  }
}

export const bundleFolder = (dataDir: string, hash: string): string => join(dataDir, "bundles", hash)

const makeWhole = async (folder: string, fill: (draft: string) => Promise<void>): Promise<void> => {
  if (await isThere(folder)) return
  const draft = `${folder}.${randomBytes(6).toString("hex")}.part`
  try {
    await mkdir(draft, { recursive: true })
    await fill(draft)
    await rename(draft, folder)
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    // Somebody else was first.
    if (await isThere(folder)) return
    throw error
  }
}

const isThere = async (folder: string): Promise<boolean> => (await stat(folder).catch(() => null)) !== null
