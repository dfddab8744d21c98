// Names of errnos and signals, sizes for messages, and messages of unknown errors.

import { constants } from "node:os"

const ERRNO_NAMES = new Map(Object.entries(constants.errno).map(([name, number]) => [number, name]))
const SIGNAL_NAMES = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]))
// Numbers with two names get the better known one.
SIGNAL_NAMES.set(constants.signals.SIGABRT, "SIGABRT").set(constants.signals.SIGIO, "SIGIO")

export const errnoName = (errno: number): string => ERRNO_NAMES.get(errno) ?? `errno ${errno}`
export const signalName = (signal: number): string => SIGNAL_NAMES.get(signal) ?? `signal ${signal}`

const UNITS = ["bytes", "KiB", "MiB", "GiB", "TiB"] as const

export const formatBytes = (bytes: number): string => {
  const step = bytes < 1024 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(bytes) / 10))
  return `${Math.round((bytes / 1024 ** step) * 10) / 10} ${UNITS[step]}`
}
