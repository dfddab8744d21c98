// Types of the values of settings: what is expected, and how a flag, a variable or a value of ork.yaml is read.

import { parseBoolean, parseWords } from "./core/settings/network.ts"
import { OBJECT_ADDRESS_HINT, parseObjectAddress } from "./core/settings/object-address.ts"
import { DURATION_HINT, MEMORY_HINT, parseDuration, parseMemory } from "./core/values/quantities.ts"

const MIB = 2 ** 20

export interface ValueType<T> {
  expected: string
  /** Returns null for an invalid value. Flags and variables are texts; values of ork.yaml have any type. */
  parse(value: unknown): T | null
}

const parseText = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null)

export const text = (expected: string): ValueType<string> => ({ expected, parse: parseText })

export const integer = (min: number, max: number): ValueType<number> => ({
  expected: `a whole number from ${min} to ${max}`,
  parse(value) {
    const number = typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value
    return typeof number === "number" && Number.isInteger(number) && number >= min && number <= max ? number : null
  },
})

const parseHttpAddress = (value: unknown): string | null => {
  const address = parseText(value)
  return address !== null && /^https?:\/\//.test(address) && URL.canParse(address) ? address.replace(/\/+$/, "") : null
}

export const FOLDER = text("a folder")

export const HTTP_ADDRESS: ValueType<string> = { expected: "http://… or https://…", parse: parseHttpAddress }

export const DURATION: ValueType<number> = { expected: DURATION_HINT, parse: parseDuration }

/** Returns the type of durations that are not below a minimum. */
export const durationFrom = (minMs: number): ValueType<number> => ({
  expected: `${DURATION_HINT}, at least ${minMs}ms`,
  parse(value) {
    const ms = parseDuration(value)
    return ms !== null && ms >= minMs ? ms : null
  },
})

export const MEMORY: ValueType<number> = {
  expected: MEMORY_HINT,
  parse: (value) => parseMemory(typeof value === "string" && /^\d+$/.test(value) ? Number(value) : value),
}

export const LOG_BYTES: ValueType<number> = {
  expected: `${MEMORY_HINT}, at least 1Mi`,
  parse(value) {
    const bytes = MEMORY.parse(value)
    return bytes !== null && bytes >= MIB ? bytes : null
  },
}

const DATABASE_SCHEMES = ["sqlite:", "postgres://", "postgresql://"]

export const DATABASE: ValueType<string> = {
  expected: "sqlite:FILE or postgres://…",
  parse(value) {
    const address = parseText(value)
    const hasScheme = DATABASE_SCHEMES.some((scheme) => address?.startsWith(scheme) && address.length > scheme.length)
    return hasScheme ? address : null
  },
}

export const OBJECT_STORE: ValueType<string> = {
  expected: OBJECT_ADDRESS_HINT,
  parse(value) {
    const address = parseText(value)
    return address === null || parseObjectAddress(address) === null ? null : address
  },
}

const LOG_LEVELS = ["debug", "info", "warn", "error", "silent"]

export const LOG_LEVEL: ValueType<string> = {
  expected: "debug, info, warn, error or silent",
  parse: (value) => (typeof value === "string" && LOG_LEVELS.includes(value) ? value : null),
}

const MIN_KEY_LENGTH = 16

export const API_KEY: ValueType<string> = {
  expected: `a key of at least ${MIN_KEY_LENGTH} characters`,
  parse: (value) => (typeof value === "string" && value.length >= MIN_KEY_LENGTH ? value : null),
}

/** Accepts `8001`, `host:8001` and `https://host/worker`. */
export const WORKER_ADDRESSES: ValueType<string[]> = {
  expected: "ports, HOST:PORT or http://… addresses, separated by commas",
  parse(value) {
    const words = typeof value === "string" ? value.split(",") : Array.isArray(value) ? value.map(String) : [String(value)]
    const addresses = words.map((word) => parseWorkerAddress(word.trim()))
    return addresses.some((address) => address === null) ? null : (addresses as string[])
  },
}

const parseWorkerAddress = (word: string): string | null => {
  const isPort = /^\d{1,5}$/.test(word)
  const isHostAndPort = /^[^/:]+:\d{1,5}$/.test(word)
  return parseHttpAddress(isPort ? `http://127.0.0.1:${word}` : isHostAndPort ? `http://${word}` : word)
}

export const BOOLEAN: ValueType<boolean> = { expected: "true or false", parse: parseBoolean }

export const FILES: ValueType<string[]> = {
  expected: "files, separated by commas",
  parse: parseWords,
}

const SANDBOX_MODES = ["auto", "required", "off"] as const
export type SandboxMode = (typeof SANDBOX_MODES)[number]

export const SANDBOX: ValueType<SandboxMode> = {
  expected: "auto, required or off",
  // YAML 1.1 files write `off` for false.
  parse: (value) => SANDBOX_MODES.find((mode) => mode === (value === false ? "off" : value)) ?? null,
}
