// Classifies addresses: those outside of the public Internet are blocked unless the configuration allows them.

import { BlockList, isIP } from "node:net"
import type { AllowedHost } from "../../core/settings/http-allow.ts"

/** Ranges of IANA's registries of special-purpose addresses; the first one that matches names the reason. */
const BLOCKED = [
  ["169.254.169.254/32", "the cloud's metadata address"],
  ["fd00:ec2::254/128", "the cloud's metadata address"],
  ["0.0.0.0/8", "an unspecified address"],
  ["10.0.0.0/8", "a private address"],
  ["100.64.0.0/10", "an address of a provider's inner network"],
  ["127.0.0.0/8", "a loopback address"],
  ["169.254.0.0/16", "a link-local address"],
  ["172.16.0.0/12", "a private address"],
  ["192.0.0.0/24", "a reserved address"],
  ["192.0.2.0/24", "a documentation address"],
  ["192.88.99.0/24", "a reserved address"],
  ["192.168.0.0/16", "a private address"],
  ["198.18.0.0/15", "a benchmarking address"],
  ["198.51.100.0/24", "a documentation address"],
  ["203.0.113.0/24", "a documentation address"],
  ["224.0.0.0/4", "a multicast address"],
  ["240.0.0.0/4", "a reserved address"],
  ["::/128", "an unspecified address"],
  ["::1/128", "a loopback address"],
  ["::ffff:0:0/96", "an IPv4 address written as IPv6"],
  ["::/96", "an IPv4 address written as IPv6"],
  ["64:ff9b::/96", "an IPv4 address behind a translator"],
  ["64:ff9b:1::/48", "an IPv4 address behind a translator"],
  ["2001::/23", "a reserved address"],
  ["2001:db8::/32", "a documentation address"],
  ["2002::/16", "an IPv4 address in a 6to4 tunnel"],
  ["3fff::/20", "a documentation address"],
  ["fc00::/7", "a private address"],
  ["fe80::/10", "a link-local address"],
  ["ff00::/8", "a multicast address"],
] as const

const GLOBAL_UNICAST = "2000::/3"

const listOf = (range: string): BlockList => {
  const [address, prefix] = range.split("/") as [string, string]
  const list = new BlockList()
  list.addSubnet(address, Number(prefix), isIP(address) === 4 ? "ipv4" : "ipv6")
  return list
}

const LISTS = BLOCKED.map(([range, reason]) => ({ list: listOf(range), v4: !range.includes(":"), reason }))
const PUBLIC_V6 = listOf(GLOBAL_UNICAST)

const familyOf = (address: string): "ipv4" | "ipv6" => (isIP(address) === 4 ? "ipv4" : "ipv6")
const withoutZone = (address: string): string => address.replace(/%.*$/, "")

/** Returns why an address is blocked; null when it belongs to the public Internet. */
export const blockReason = (given: string): string | null => {
  const address = withoutZone(given)
  const family = familyOf(address)
  // Each family has its own rules: Node would also match an IPv4 address against rules for IPv4-mapped IPv6 addresses, and vice
  // versa.
  const found = LISTS.find(({ list, v4 }) => v4 === (family === "ipv4") && list.check(address, family))
  if (found !== undefined) return found.reason
  return family === "ipv4" || PUBLIC_V6.check(address, family) ? null : "a reserved address"
}

/** The addresses and hosts that the configuration allows. */
export class AllowList {
  readonly #entries: { host: string | null; list: BlockList | null; port: number | null }[]

  constructor(allowed: readonly AllowedHost[]) {
    this.#entries = allowed.map(({ host, range, port }) => {
      if (range === null) return { host, list: null, port }
      const list = new BlockList()
      list.addSubnet(range.address, range.prefix, range.family)
      return { host, list, port }
    })
  }

  allowsHost(host: string, port: number): boolean {
    return this.#entries.some((entry) => entry.host !== null && portMatches(entry, port) && hostMatches(entry.host, host))
  }

  allowsAddress(given: string, port: number): boolean {
    const address = withoutZone(given)
    return this.#entries.some(
      ({ list, ...entry }) => list !== null && portMatches(entry, port) && list.check(address, familyOf(address)),
    )
  }
}

const portMatches = (entry: { port: number | null }, port: number): boolean => entry.port === null || entry.port === port

const hostMatches = (pattern: string, host: string): boolean =>
  pattern === "*" || (pattern.startsWith("*.") ? host.endsWith(pattern.slice(1)) : pattern === host)
