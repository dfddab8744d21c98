import { existsSync, mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** Creates a folder, in memory where the system has such folders. */
export const makeFolder = (): string => mkdtempSync(join(existsSync("/dev/shm") ? "/dev/shm" : tmpdir(), "ork-sim-"))
