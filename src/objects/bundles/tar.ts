// Reads and writes tar archives of bundles in memory: regular files, sorted, without times and owners, so that the same files always
// produce the same bytes. Archives are untrusted: anything else in them is rejected.

export interface TarFile {
  /** Relative path with `/` as separator. */
  path: string
  bytes: Uint8Array
  executable: boolean
}

export class InvalidArchive extends Error {}

const BLOCK = 512
const NAME_BYTES = 100
const PREFIX_BYTES = 155

export const writeTar = (files: readonly TarFile[]): Buffer => {
  const sorted = files.toSorted((a, b) => (a.path < b.path ? -1 : 1))
  const pieces = sorted.flatMap(({ path, bytes, executable }) => [
    header(path, bytes.length, executable),
    bytes,
    Buffer.alloc((BLOCK - (bytes.length % BLOCK)) % BLOCK),
  ])
  return Buffer.concat([...pieces, Buffer.alloc(2 * BLOCK)])
}

const header = (path: string, size: number, executable: boolean): Buffer => {
  const block = Buffer.alloc(BLOCK)
  const { name, prefix } = splitPath(path)
  block.write(name, 0)
  block.write(executable ? "0000755\0" : "0000644\0", 100)
  block.write("0000000\0".repeat(2), 108)
  block.write(`${size.toString(8).padStart(11, "0")}\0`, 124)
  block.write("00000000000\0", 136)
  block.write("        ", 148)
  block.write("0", 156)
  block.write("ustar\x0000", 257)
  block.write(prefix, 345)
  block.write(`${checksum(block).toString(8).padStart(6, "0")}\0 `, 148)
  return block
}

/** Splits a long path at a slash into the two fields of a header. */
const splitPath = (path: string): { name: string; prefix: string } => {
  if (Buffer.byteLength(path) <= NAME_BYTES) return { name: path, prefix: "" }
  for (let at = path.indexOf("/"); at > 0; at = path.indexOf("/", at + 1)) {
    const [prefix, name] = [path.slice(0, at), path.slice(at + 1)]
    if (Buffer.byteLength(prefix) <= PREFIX_BYTES && Buffer.byteLength(name) <= NAME_BYTES) return { name, prefix }
  }
  throw new InvalidArchive(`the path ${path} is too long`)
}

const checksum = (block: Buffer): number => block.reduce((sum, byte) => sum + byte, 0)

export const readTar = (bytes: Uint8Array): TarFile[] => {
  const data = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const files: TarFile[] = []
  for (let at = 0; at + BLOCK <= data.length;) {
    const block = data.subarray(at, at + BLOCK)
    if (block.every((byte) => byte === 0)) return files
    const size = Number.parseInt(text(block, 124, 12), 8)
    const sum = Number.parseInt(text(block, 148, 8), 8)
    const plain = Buffer.from(block).fill(0x20, 148, 156)
    if (checksum(plain) !== sum || !(size >= 0) || at + BLOCK + size > data.length)
      throw new InvalidArchive("the archive is damaged")
    const prefix = text(block, 345, PREFIX_BYTES)
    const path = prefix === "" ? text(block, 0, NAME_BYTES) : `${prefix}/${text(block, 0, NAME_BYTES)}`
    const kind = text(block, 156, 1)
    if (kind !== "0" && kind !== "") throw new InvalidArchive(`${path} is not a regular file`)
    if (!isRelativePath(path)) throw new InvalidArchive(`the path ${JSON.stringify(path)} leads out of its folder`)
    const mode = Number.parseInt(text(block, 100, 8), 8)
    files.push({ path, bytes: data.subarray(at + BLOCK, at + BLOCK + size), executable: (mode & 0o100) !== 0 })
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK
  }
  throw new InvalidArchive("the archive is truncated")
}

const text = (block: Buffer, at: number, length: number): string => {
  const field = block.subarray(at, at + length)
  const end = field.indexOf(0)
  return field.toString("utf8", 0, end < 0 ? length : end).trimEnd()
}

/** Returns true for a path that stays below the folder that it is relative to. */
export const isRelativePath = (path: string): boolean =>
  path !== "" &&
  !path.includes("\0") &&
  !path.includes("\\") &&
  path.split("/").every((part) => part !== "" && part !== "." && part !== "..")
