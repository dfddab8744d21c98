// Names of errnos and signals.

import { constants } from "node:os"

const ERRNO_NAMES = new Map(Object.entries(constants.errno).map(([name, number]) => [number, name]))
const SIGNAL_NAMES = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]))
// Numbers with two names get the better known one.
SIGNAL_NAMES.set(constants.signals.SIGABRT, "SIGABRT").set(constants.signals.SIGIO, "SIGIO")

export const errnoName = (errno: number): string => ERRNO_NAMES.get(errno) ?? `errno ${errno}`
export const signalName = (signal: number): string => SIGNAL_NAMES.get(signal) ?? `signal ${signal}`
