// The folder of a test.

import { accessSync, constants, mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/**
 * Creates a folder for logs and large outputs: in memory where the system has such a folder, because a disk would take most of the
 * time.
 */
export const createFolder = (): string => {
  const inMemory = "/dev/shm"
  try {
    accessSync(inMemory, constants.W_OK)
    return mkdtempSync(join(inMemory, "ork-test-"))
  } catch {
    return mkdtempSync(join(tmpdir(), "ork-test-"))
  }
}
