// Faults of disks and object stores. The disks are small tmpfs mounts, which need the right to mount; the S3 server is Ceph's radosgw
// behind a proxy.

import { execFileSync } from "node:child_process"
import { closeSync, mkdirSync, openSync, rmSync, writeFileSync, writeSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as delay } from "node:timers/promises"
import { type ChildOptions, startTruncating } from "../ork-child.ts"
import type { OrkProcess } from "../../support/ork-process.ts"
import { createBucket } from "../../support/components/s3.ts"
import { TcpProxy } from "../../support/components/tcp-proxy.ts"

/** A store that can be broken and repaired. */
export interface Site {
  env: Record<string, string>
  launch?(args: string[], options: ChildOptions): OrkProcess
  break(): Promise<void> | void
  repair(): void
  stop(): Promise<void> | void
}

export interface StorageFault {
  name: string
  /** Whether /ready reports it. */
  noticed: boolean
  /** Whether runs may fail: their objects are lost for good. */
  mayFail?: boolean
  prepare(folder: string): Promise<Site>
}

const DISK_SIZE = "48m"

/** A small disk below a folder. */
const mountDisk = (folder: string): { disk: string; stop(): void } => {
  const disk = join(folder, "disk")
  mkdirSync(disk)
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${DISK_SIZE},mode=755`, "tmpfs", disk])
  return { disk, stop: () => void execFileSync("umount", ["-l", disk]) }
}

/** Fills a disk up to its last byte. */
const fill = (disk: string): void => {
  const file = openSync(join(disk, "filler"), "w")
  try {
    for (let size = 1 << 20; size > 0; size >>= 1) {
      try {
        for (;;) writeSync(file, Buffer.alloc(size))
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error
      }
    }
  } finally {
    closeSync(file)
  }
}

const remount = (disk: string, mode: "ro" | "rw"): void => {
  execFileSync("mount", ["-o", `remount,${mode}`, disk], { stdio: "pipe" })
}

const READ_ONLY_TRIES = 1000

/** Makes a disk read-only at a moment at which no file on it is open for writing. */
const makeReadOnly = async (disk: string): Promise<void> => {
  for (let tries = 0; ; tries++) {
    try {
      return remount(disk, "ro")
    } catch (error) {
      if (tries > READ_ONLY_TRIES) throw error
      await delay(5)
    }
  }
}

const onDisk = async (
  folder: string,
  disturb: (disk: string) => Pick<Site, "break" | "repair">,
  dataToo = false,
): Promise<Site> => {
  const { disk, stop } = mountDisk(folder)
  const env = {
    ORK_OBJECT_STORE: `file:${join(disk, "objects")}`,
    ...(dataToo && { ORK_DATA_DIR: join(disk, "ork") }),
  }
  return { env, ...disturb(disk), stop }
}

const filling = (disk: string): Pick<Site, "break" | "repair"> => ({
  break: () => fill(disk),
  repair: () => rmSync(join(disk, "filler")),
})

/** An S3 server behind a proxy. */
const onS3 = async (disturb: (proxy: TcpProxy) => Pick<Site, "break" | "repair">): Promise<Site> => {
  const { bucket, endpoint, env } = await createBucket()
  const proxy = await TcpProxy.start(Number(new URL(endpoint).port))
  const address = encodeURIComponent(`http://127.0.0.1:${proxy.port}`)
  return {
    env: { ...env, ORK_OBJECT_STORE: `s3://${bucket}/ork?endpoint=${address}&path_style=true` },
    ...disturb(proxy),
    stop: () => proxy.stop(),
  }
}

const SLOW_MS = 300

export const STORAGE_FAULTS: StorageFault[] = [
  { name: "full disk", noticed: true, prepare: (folder) => onDisk(folder, filling, true) },
  { name: "full disk of the object store", noticed: true, prepare: (folder) => onDisk(folder, filling) },
  {
    name: "read-only object store",
    noticed: true,
    prepare: (folder) => onDisk(folder, (disk) => ({ break: () => makeReadOnly(disk), repair: () => remount(disk, "rw") })),
  },
  {
    name: "silent S3",
    noticed: true,
    prepare: () => onS3((proxy) => ({ break: () => proxy.setSilent(true), repair: () => proxy.setSilent(false) })),
  },
  {
    name: "slow S3",
    noticed: false,
    prepare: () => onS3((proxy) => ({ break: () => proxy.slow(SLOW_MS), repair: () => proxy.slow(0) })),
  },
  {
    name: "truncated objects",
    noticed: false,
    mayFail: true,
    async prepare(folder) {
      const file = join(folder, "truncate")
      return {
        env: { ORK_OBJECT_STORE: `file:${join(folder, "objects")}` },
        launch: (args, options) => startTruncating(args, options, file),
        break: () => writeFileSync(file, ""),
        repair: () => rmSync(file),
        stop: () => {},
      }
    },
  },
]
