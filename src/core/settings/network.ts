// Parsers of settings about the network around a server: proxies that it trusts, and its own names.

import { parseRange } from "./http-allow.ts"

export const PROXIES_HINT = "the addresses or ranges of proxies, or true for every sender"
export const HOSTS_HINT = 'host names such as "ork.example.com" or "*.example.com", separated by commas'

export const parseBoolean = (value: unknown): boolean | null => {
  if (value === true || value === "true" || value === "1") return true
  return value === false || value === "false" || value === "0" ? false : null
}

/** Parses a list, or a text with commas; null when it has an empty entry. */
export const parseWords = (value: unknown): string[] | null => {
  const list: unknown = typeof value === "string" ? value.split(",") : value
  const isValid = Array.isArray(list) && list.every((word) => typeof word === "string" && word.trim() !== "")
  return isValid ? (list as string[]).map((word) => word.trim()) : null
}

export const parseProxies = (value: unknown): boolean | string[] | null => {
  const all = parseBoolean(value)
  if (all !== null) return all
  const proxies = parseWords(value)
  return proxies !== null && proxies.every((proxy) => parseRange(proxy.toLowerCase()) !== null) ? proxies : null
}

export const parseHosts = (value: unknown): string[] | null => {
  const hosts = parseWords(value)
  return hosts !== null && hosts.every((host) => /^(?:\*|(?:\*\.)?[A-Za-z0-9_.-]+)$/.test(host)) ? hosts : null
}
