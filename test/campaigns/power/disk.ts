// A disk that loses power. It replays a log and keeps apart what is safe from what is not: the content of a file is safe after a sync of
// the file, the entries of a folder (new, renamed and removed files) after a sync of the folder. A power loss keeps any part of the rest.

import { constants } from "node:fs"
import { dirname } from "node:path"
import type { Rng } from "../../sim/rng.ts"
import { type LogRecord, OP } from "./log.ts"

const SECTOR = 512

type Change = { offset: number; data: Buffer } | { size: number }

/** The bytes of a file, in a buffer that grows. */
class Content {
  #buffer: Buffer
  #size: number

  constructor(bytes: Buffer = Buffer.alloc(0)) {
    this.#buffer = bytes
    this.#size = bytes.length
  }

  /** A view, valid until the next change. */
  get bytes(): Buffer {
    return this.#buffer.subarray(0, this.#size)
  }

  apply(changes: readonly Change[]): this {
    for (const change of changes) {
      if ("size" in change) this.#resize(change.size)
      else {
        this.#resize(Math.max(this.#size, change.offset + change.data.length))
        change.data.copy(this.#buffer, change.offset)
      }
    }
    return this
  }

  #resize(size: number): void {
    if (size > this.#buffer.length) {
      const larger = Buffer.alloc(2 * size)
      this.bytes.copy(larger)
      this.#buffer = larger
    }
    if (size < this.#size) this.#buffer.fill(0, size, this.#size)
    this.#size = size
  }
}

class DiskFile {
  /** Content after the last sync. */
  readonly synced = new Content()
  pending: Change[] = []

  sync(): void {
    this.synced.apply(this.pending)
    this.pending = []
  }
}

/** Returns the content with any part of the changes, in their order; a write may be torn between sectors. */
const afterPowerLoss = ({ synced, pending }: DiskFile, rng: Rng): Buffer => {
  if (pending.length === 0) return synced.bytes
  return new Content(Buffer.from(synced.bytes)).apply(survivors(pending, rng)).bytes
}

const survivors = (pending: readonly Change[], rng: Rng): readonly Change[] => {
  const share = rng.next()
  switch (rng.int(0, 4)) {
    case 0:
      return []
    case 1:
      return pending
    case 2:
      return pending.slice(0, rng.int(0, pending.length))
    case 3:
      return pending.filter(() => rng.chance(share))
    default:
      return pending.flatMap(sectors).filter(() => rng.chance(share))
  }
}

const sectors = (change: Change): Change[] => {
  if ("size" in change) return [change]
  const pieces: Change[] = []
  for (let at = 0; at < change.data.length;) {
    const offset = change.offset + at
    const length = Math.min(change.data.length - at, SECTOR - (offset % SECTOR))
    pieces.push({ offset, data: change.data.subarray(at, at + length) })
    at += length
  }
  return pieces
}

/** Entries that a call added and removed; a rename does both at once. null: a folder. */
interface EntryChange {
  folder: string
  add: [path: string, file: DiskFile | null][]
  remove: string[]
}

export class Disk {
  readonly #root: string
  readonly #ignoresSyncs: boolean
  readonly #files = new Map<string, DiskFile | null>()
  readonly #synced = new Map<string, DiskFile | null>()
  #pending: EntryChange[] = []
  readonly #open = new Map<string, { path: string; file: DiskFile | null }>()

  /** `ignoresSyncs`: a disk that confirms syncs and does nothing. */
  constructor(root: string, { ignoresSyncs = false } = {}) {
    this.#root = root
    this.#ignoresSyncs = ignoresSyncs
  }

  replay({ op, pid, fd, number, data }: LogRecord): void {
    const handle = `${pid} ${fd}`
    const opened = this.#open.get(handle)
    switch (op) {
      case OP.open:
        return this.#opened(handle, data.toString(), number)
      case OP.close:
        return void this.#open.delete(handle)
      case OP.write:
        return void opened?.file?.pending.push({ offset: number, data })
      case OP.truncate:
        return void opened?.file?.pending.push({ size: number })
      case OP.sync:
        return opened === undefined || this.#ignoresSyncs ? undefined : this.#sync(opened)
      case OP.mkdir:
        return this.#change({ add: [[data.toString(), null]] })
      case OP.unlink:
      case OP.rmdir:
        return this.#change({ remove: [data.toString()] })
      case OP.rename:
      case OP.link: {
        const [from = "", to = ""] = data.toString().split("\0")
        return this.#change({ add: [[to, this.#files.get(from) ?? null]], remove: op === OP.rename ? [from] : [] })
      }
    }
  }

  #opened(handle: string, path: string, flags: number): void {
    if (!this.#files.has(path) && (flags & constants.O_CREAT) !== 0) this.#change({ add: [[path, new DiskFile()]] })
    const file = this.#files.get(path) ?? null
    if ((flags & constants.O_TRUNC) !== 0) file?.pending.push({ size: 0 })
    this.#open.set(handle, { path, file })
  }

  /** Adds folders that a process without the recorder has created. */
  #addFolders(path: string): void {
    if (path.length <= this.#root.length || this.#files.has(path)) return
    this.#addFolders(dirname(path))
    this.#change({ add: [[path, null]] })
  }

  #change({ add = [], remove = [] }: Partial<EntryChange>): void {
    for (const [path] of add) this.#addFolders(dirname(path))
    for (const path of remove) this.#files.delete(path)
    for (const [path, file] of add) this.#files.set(path, file)
    this.#pending.push({ folder: dirname(add[0]?.[0] ?? remove[0]!), add, remove })
  }

  #sync({ path, file }: { path: string; file: DiskFile | null }): void {
    if (file !== null) return file.sync()
    this.#pending = this.#pending.filter((change) => {
      if (change.folder === path) applyEntries(this.#synced, change)
      return change.folder !== path
    })
  }

  /** Returns the files after a power loss at this point, by path. File systems keep the order of changes of entries. */
  losePower(rng: Rng): Map<string, Buffer> {
    const entries = new Map(this.#synced)
    const kept = rng.int(0, 2) === 0 ? 0 : rng.int(0, this.#pending.length)
    for (const change of this.#pending.slice(0, kept)) applyEntries(entries, change)
    const reachable = (path: string): boolean => path === this.#root || (entries.get(path) === null && reachable(dirname(path)))
    const files = new Map<string, Buffer>()
    for (const [path, file] of entries) {
      if (file !== null && reachable(dirname(path))) files.set(path, afterPowerLoss(file, rng))
    }
    return files
  }
}

const applyEntries = (entries: Map<string, DiskFile | null>, { add, remove }: EntryChange): void => {
  for (const path of remove) entries.delete(path)
  for (const [path, file] of add) entries.set(path, file)
}
