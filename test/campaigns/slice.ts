// Runs a slice of a campaign, as `npm run` does, for tests.

import { execFile } from "node:child_process"
import { join } from "node:path"

/** Returns the exit code and what the campaign printed. */
export const runSlice = (campaign: string, args: string[]): Promise<{ code: number; printed: string }> =>
  new Promise((resolve) => {
    execFile(process.execPath, [join(import.meta.dirname, campaign, "main.ts"), ...args], (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), printed: stdout + stderr }),
    )
  })
