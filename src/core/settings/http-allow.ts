// The setting `http_allow`: hosts that http tasks and notifications may call although their addresses are private. An entry is a host
// (`api.internal`, `*.internal`), an address or a range of addresses (`10.0.0.0/8`, `fd00::/8`), optionally with a port
// (`localhost:8080`, `[::1]:8080`), or `*` for everything.

export interface AllowedHost {
  /** Host as in a URL, in lower case; `*.` at the start allows all names below, `*` any host. null: `range` decides. */
  host: string | null
  range: { address: string; prefix: number; family: "ipv4" | "ipv6" } | null
  /** null: any port. */
  port: number | null
}

export const HTTP_ALLOW_HINT = 'a list of hosts, addresses or ranges: "api.internal", "*.internal:8080", "10.0.0.0/8", "*"'

const NAME = /^(?:\*\.)?[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*$/
const IPV4 = /^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/

/** Parses a list, or one text with entries separated by commas or spaces; null when it is not valid. */
export const parseHttpAllow = (value: unknown): AllowedHost[] | null => {
  const entries: unknown[] | null =
    typeof value === "string" ? value.split(/[\s,]+/).filter((entry) => entry !== "") : Array.isArray(value) ? value : null
  if (entries === null) return null
  const parsed = entries.map((entry) => (typeof entry === "string" ? parseEntry(entry.trim().toLowerCase()) : null))
  return parsed.every((entry) => entry !== null) ? parsed : null
}

const parseEntry = (text: string): AllowedHost | null => {
  if (text === "*") return { host: "*", range: null, port: null }
  const whole = parseRange(text)
  if (whole !== null) return { host: null, range: whole, port: null }
  const match = /^(.+?)(?::(\d{1,5}))?$/.exec(text)
  const port = match?.[2] === undefined ? null : Number(match[2])
  if (match === null || (port !== null && (port === 0 || port > 65_535))) return null
  const host = match[1]!
  const range = parseRange(host.replace(/^\[(.+)\]$/, "$1"))
  if (range !== null) return { host: null, range, port }
  return NAME.test(host) && !/^[\d.]+$/.test(host) ? { host, range: null, port } : null
}

/** Parses an address or a range of addresses; null when it is neither. */
export const parseRange = (text: string): AllowedHost["range"] => {
  const [address, bits, ...rest] = text.split("/") as [string, string?, ...string[]]
  const family = IPV4.test(address) ? "ipv4" : isIpv6(address) ? "ipv6" : null
  if (family === null || rest.length > 0) return null
  const maxPrefix = family === "ipv4" ? 32 : 128
  const prefix = bits === undefined ? maxPrefix : /^\d{1,3}$/.test(bits) ? Number(bits) : Number.NaN
  return prefix <= maxPrefix ? { address, prefix, family } : null
}

const isIpv6 = (text: string): boolean => /^[0-9a-f:.]*:[0-9a-f:.]*$/.test(text) && URL.canParse(`http://[${text}]/`)
