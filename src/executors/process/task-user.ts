// The user of the tasks of a server that runs as root.

import { execFileSync } from "node:child_process"
import { lchownSync, lstatSync, readdirSync, realpathSync, statSync } from "node:fs"
import { dirname, join, relative, sep } from "node:path"
import { UnusableSetting } from "../../core/settings/unusable-setting.ts"

export interface TaskUser {
  name: string
  uid: number
  gid: number
}

/** Users to try if none is configured: one that an administrator created for this purpose, and one that every system has. */
const DEFAULT_USERS = ["ork-task", "nobody"] as const

export type TaskUserChoice = { user: TaskUser } | { user: null; reason: string | null }

/**
 * Returns the user of tasks; null and no reason if tasks run as Ork's own user as they should, or the reason why. `paths`: what that user
 * has to reach. Throws an UnusableSetting if the configured user cannot be used.
 */
export const findTaskUser = (configured: string, paths: readonly string[]): TaskUserChoice => {
  if (process.geteuid?.() !== 0) return { user: null, reason: null }
  const [user] = (configured === "" ? DEFAULT_USERS : [configured]).flatMap((name) => findUser(name) ?? [])
  if (user?.uid === 0) return { user: null, reason: null }
  const reason = user === undefined ? `there is no user ${configured || DEFAULT_USERS.join(" or ")}` : unreachable(user, paths)
  if (reason === null) return { user: user! }
  if (configured !== "") throw new UnusableSetting(`task_user: ${reason}`)
  return { user: null, reason }
}

/** Returns why a user cannot reach one of the paths; null if all can be reached. */
const unreachable = ({ name, uid, gid }: TaskUser, paths: readonly string[]): string | null => {
  for (const path of paths) {
    for (let folder = dirname(path); ; folder = dirname(folder)) {
      const { mode, uid: owner, gid: group } = statSync(folder)
      const needed = owner === uid ? 0o100 : group === gid ? 0o010 : 0o001
      if ((mode & needed) === 0)
        return `the user ${name} cannot enter ${folder}, which ${path} is in (chmod o+x ${folder} allows it)`
      if (folder === dirname(folder)) break
    }
  }
  return null
}

/** Returns null if there is no such user. */
export const findUser = (name: string): TaskUser | null => {
  try {
    const output = execFileSync("getent", ["passwd", "--", name], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] })
    const [found, , uid, gid] = output.trim().split(":")
    return { name: found!, uid: Number(uid), gid: Number(gid) }
  } catch {
    return null
  }
}

/**
 * Depth of the folders of runs and of pushed tasks below the data folder. Their parents belong to Ork, so that no task can replace
 * them.
 */
const DEPTHS: Readonly<Record<string, number>> = { work: 2, pushed: 3 }

/** Gives the folder of a run to the user of tasks, unless that user has it: a folder may have been removed and created again. */
export class FolderOwner {
  readonly #dataDir: string
  readonly #user: TaskUser

  constructor(dataDir: string, user: TaskUser) {
    this.#dataDir = dataDir
    this.#user = user
  }

  give(workingDir: string): void {
    const parts = relative(this.#dataDir, realPath(workingDir)).split(sep)
    const depth = DEPTHS[parts[0] ?? ""]
    if (depth === undefined || parts.length < depth) return
    const folder = join(this.#dataDir, ...parts.slice(0, depth))
    if (lstatSync(folder, { throwIfNoEntry: false })?.uid === process.geteuid?.()) this.#giveAll(folder)
  }

  #giveAll(folder: string): void {
    for (const entry of readdirSync(folder, { withFileTypes: true })) {
      const path = join(folder, entry.name)
      if (entry.isDirectory()) this.#giveAll(path)
      else lchownSync(path, this.#user.uid, this.#user.gid)
    }
    lchownSync(folder, this.#user.uid, this.#user.gid)
  }
}

/** Returns the path itself if it does not exist: the start of the task reports that. */
const realPath = (path: string): string => {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}
