// The files of a workflow version: one archive in the object store under its hash, unpacked once per machine to run functions, and
// copied once per run into its working folder. A folder appears by a rename, so that nobody sees it incomplete.

import { createHash, randomBytes } from "node:crypto"
import { constants, existsSync } from "node:fs"
import { cp, mkdir, rename, rm, stat, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import type { ObjectStore } from "../objects.ts"
import { readTar, type TarFile, writeTar } from "./tar.ts"
import { BoundedMap } from "../../core/values/bounded-map.ts"

export const MAX_BUNDLE_BYTES = 16 * 2 ** 20

export const BUNDLES_PREFIX = "bundles/"

/** Returns the prefix of a bundle: each has its own, so that it can be deleted. */
export const bundlePrefix = (hash: string): string => `${BUNDLES_PREFIX}${hash}/`

export const bundleKey = (hash: string): string => `${bundlePrefix(hash)}files.tar`

/** Returns null if the key is not the key of a bundle. */
export const bundleHash = (key: string): string | null => /^bundles\/([0-9a-f]{64})\/files\.tar$/.exec(key)?.[1] ?? null

export interface Bundle {
  hash: string
  bytes: Buffer
}

export const createBundle = (files: readonly TarFile[]): Bundle => {
  const bytes = writeTar(files)
  return { hash: hashOf(bytes), bytes }
}

export const hashOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex")

/** Stores a bundle, unless it is already stored. */
export const storeBundle = async (objects: Pick<ObjectStore, "size" | "put">, { hash, bytes }: Bundle): Promise<void> => {
  if ((await objects.size(bundleKey(hash))) === null) await objects.put(bundleKey(hash), bytes)
}

/** The files of a version are missing or damaged. */
export class UnusableBundle extends Error {}

/** Number of folders that are known to exist and are not checked again. */
const MAX_CACHED = 1000

export interface BundleFoldersOptions {
  /** Parent of the folder of unpacked bundles. */
  dataDir: string
  /** Reads an archive; returns null if it does not exist any more. */
  read(hash: string): Promise<Uint8Array | null>
}

export class BundleFolders {
  readonly #options: BundleFoldersOptions
  /** By folder: in progress or complete. */
  readonly #created = new BoundedMap<string, Promise<void>>(MAX_CACHED)

  constructor(options: BundleFoldersOptions) {
    this.#options = options
  }

  /** Returns the folder of the unpacked bundle, which is shared: its files must not be changed. */
  async folder(hash: string): Promise<string> {
    const folder = bundleFolder(this.#options.dataDir, hash)
    await this.#once(folder, (draft) => this.#unpack(hash, draft))
    return folder
  }

  /** Copies the files of a bundle into a folder, unless it exists. */
  async copyTo(folder: string, hash: string): Promise<void> {
    const source = await this.folder(hash)
    await this.#once(folder, (draft) => cp(source, draft, { recursive: true, mode: constants.COPYFILE_FICLONE }))
  }

  /** Creates a folder, and again when it was removed since: no version named the bundle meanwhile. */
  async #once(folder: string, fill: (draft: string) => Promise<void>): Promise<void> {
    const created = this.#created.get(folder)
    if (created !== undefined) {
      await created
      if (existsSync(folder)) return
      if (this.#created.get(folder) === created) this.#created.delete(folder)
    }
    let creation = this.#created.get(folder)
    if (creation === undefined) {
      creation = createFolder(folder, fill)
      this.#created.set(folder, creation)
      creation.catch(() => this.#created.delete(folder))
    }
    await creation
  }

  async #unpack(hash: string, draft: string): Promise<void> {
    const bytes = await this.#options.read(hash)
    if (bytes === null) {
      throw new UnusableBundle(`the files of this version (bundle ${hash.slice(0, 12)}) are missing in the object store`)
    }
    if (hashOf(bytes) !== hash) {
      throw new UnusableBundle(`the bundle ${hash.slice(0, 12)} in the object store is damaged: deploy again`)
    }
    for (const file of readTar(bytes)) {
      const path = join(draft, file.path)
      await mkdir(dirname(path), { recursive: true })
      await writeFile(path, file.bytes, { mode: file.executable ? 0o755 : 0o644 })
    }
  }
}

export const bundleFolder = (dataDir: string, hash: string): string => join(dataDir, "bundles", hash)

/** Fills a draft and renames it; does nothing if the folder exists. */
const createFolder = async (folder: string, fill: (draft: string) => Promise<void>): Promise<void> => {
  if (await exists(folder)) return
  const draft = `${folder}.${randomBytes(6).toString("hex")}.part`
  try {
    await mkdir(draft, { recursive: true })
    await fill(draft)
    await rename(draft, folder)
  } catch (error) {
    await rm(draft, { recursive: true, force: true })
    // Another process was faster.
    if (await exists(folder)) return
    throw error
  }
}

const exists = async (folder: string): Promise<boolean> => (await stat(folder).catch(() => null)) !== null
