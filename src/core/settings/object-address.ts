// Addresses of object stores: `file:FOLDER`, `s3://BUCKET/PREFIX?endpoint=…&region=…&path_style=true`, `gs://BUCKET/PREFIX`. The
// configuration parses them to check them, objects/open.ts to open the store.

export type ObjectAddress =
  | { kind: "file"; folder: string }
  | { kind: "s3"; bucket: string; prefix: string; endpoint: string | null; region: string | null; pathStyle: boolean }
  | { kind: "gcs"; bucket: string; prefix: string }

export const OBJECT_ADDRESS_HINT =
  "file:FOLDER, s3://BUCKET/PREFIX (with ?endpoint=URL&region=NAME&path_style=true) or gs://BUCKET/PREFIX"

const FILE = "file:"
const BUCKET = /^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$/
/** A part of a host name: the client builds the address of the service from it. */
const REGION = /^[A-Za-z0-9-]{1,63}$/
const S3_OPTIONS = ["endpoint", "region", "path_style"]

/** Parses an address; null when it is not valid. The prefix is empty or ends in `/`. */
export const parseObjectAddress = (address: string): ObjectAddress | null => {
  if (address.startsWith(FILE)) {
    const folder = address.startsWith("file://") ? address.slice("file://".length) : address.slice(FILE.length)
    return folder === "" ? null : { kind: "file", folder }
  }
  if (!URL.canParse(address)) return null
  const url = new URL(address)
  const bucket = url.host
  const prefix = prefixOf(url.pathname)
  if (!BUCKET.test(bucket) || prefix === null || url.hash !== "" || url.username !== "") return null
  if (url.protocol === "gs:") return url.search === "" ? { kind: "gcs", bucket, prefix } : null
  if (url.protocol !== "s3:") return null
  const options = url.searchParams
  if ([...options].some(([name, value]) => !S3_OPTIONS.includes(name) || value === "")) return null
  const endpoint = options.get("endpoint")
  if (endpoint !== null && !(/^https?:\/\//.test(endpoint) && URL.canParse(endpoint))) return null
  const region = options.get("region")
  if (region !== null && !REGION.test(region)) return null
  const pathStyle = options.get("path_style") ?? "false"
  if (pathStyle !== "true" && pathStyle !== "false") return null
  return { kind: "s3", bucket, prefix, endpoint, region, pathStyle: pathStyle === "true" }
}

const prefixOf = (path: string): string | null => {
  const parts = path.split("/").filter((part) => part !== "")
  if (parts.some((part) => part === "." || part === "..")) return null
  const text = parts.map(decoded)
  return text.includes(null) ? null : parts.length === 0 ? "" : `${text.join("/")}/`
}

const decoded = (part: string): string | null => {
  try {
    return decodeURIComponent(part)
  } catch {
    return null
  }
}
