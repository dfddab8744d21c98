// Decides how a preview shows an artifact. A task may write anything into a file: its content is only ever shown as text or as an image.

export type Preview = { kind: "image" } | { kind: "json"; value: unknown } | { kind: "text"; text: string } | { kind: "none" }

/** Bytes of a text that a preview loads. */
export const PREVIEW_BYTES = 256 * 1024

const IMAGES = /\.(?:avif|gif|jpe?g|png|svg|webp)$/i

export const isImage = (path: string): boolean => IMAGES.test(path)

/** Returns the preview of a file. `complete`: the bytes are the whole file. */
export const previewOf = (path: string, bytes: Uint8Array, complete: boolean): Preview => {
  const text = decode(bytes, complete)
  if (text === null) return { kind: "none" }
  if (complete && path.toLowerCase().endsWith(".json")) {
    try {
      return { kind: "json", value: JSON.parse(text) as unknown }
    } catch {
      // Shown as it is.
    }
  }
  return { kind: "text", text }
}

/** Returns null for bytes that are no text. The last character of an incomplete text may be cut. */
const decode = (bytes: Uint8Array, complete: boolean): string | null => {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: !complete })
    return text.includes("\0") ? null : text
  } catch {
    return null
  }
}
