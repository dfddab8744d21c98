// Confinement of tasks: the options of the compiled helper, and the protections that are active (native/sandbox.c).

import { chmodSync, mkdirSync } from "node:fs"
import { join } from "node:path"
import { TASK_FOLDERS } from "../../objects/data-folder.ts"
import type { Hello } from "./protocol.ts"
import type { TaskUser } from "./task-user.ts"

export interface Sandbox {
  /** True: no task runs unless every protection is active. */
  required: boolean
  /** Contains the folders that tasks use (`TASK_FOLDERS`). */
  dataDir: string
  /** Folders and files of Ork that tasks do not see, except for the folders that they use; empty: nothing can be hidden. */
  hide: readonly string[]
  /** Folders and sockets of the system that tasks do not see, because they start processes outside of the confinement. */
  close: readonly string[]
  /** Files and folders that Ork runs or reads later, which tasks cannot change. */
  fix: readonly string[]
  /** User of tasks without `run_as`, if Ork runs as root; null for Ork's own. */
  user: TaskUser | null
  /** Why tasks have no user of their own although they should; null if they have, or need none. */
  noUser: string | null
  limits: { processes: number; memory: number; files: number }
  /** Why processes of the same user can read the secrets of Ork; null if they cannot. */
  readable: string | null
}

/** Which protections are active, and which are not and why, for people. */
export interface Protections {
  active: string[]
  missing: string[]
}

/** Bits that the helper reports; SANDBOX_… in native/ork-spawn.h. */
const PROTECTIONS = { confined: 1, namespace: 2, hidden: 4, user: 8, root: 16, landlock: 32, signals: 64, closed: 128 } as const

const isRoot = (): boolean => process.geteuid?.() === 0

const shownFolders = ({ dataDir }: Sandbox): string[] => TASK_FOLDERS.map((name) => join(dataDir, name))

/** Lets the user of tasks enter, but not list, a data folder that cannot be hidden. */
export const openDataFolder = ({ protections }: Pick<Hello, "protections">, { dataDir, user }: Sandbox): void => {
  if (user !== null && (protections & PROTECTIONS.hidden) === 0) chmodSync(dataDir, 0o711)
}

/** Creates the folders that tasks use. Other users may enter but not list them if tasks can have another user than Ork. */
export const createTaskFolders = (sandbox: Sandbox): void => {
  for (const folder of shownFolders(sandbox)) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    chmodSync(folder, isRoot() ? 0o711 : 0o700)
  }
}

export const sandboxArguments = (sandbox: Sandbox): string[] => {
  const { hide, close, fix, user, limits } = sandbox
  return [
    "--confine",
    ...hide.map((path) => `--hide=${path}`),
    ...close.map((path) => `--close=${path}`),
    ...fix.map((path) => `--fix=${path}`),
    ...shownFolders(sandbox).map((path) => `--show=${path}`),
    ...(user === null ? [] : [`--user=${user.name}`]),
    `--processes=${limits.processes}`,
    `--memory=${limits.memory}`,
    `--files=${limits.files}`,
  ]
}

export const describeProtections = ({ protections }: Pick<Hello, "protections">, sandbox: Sandbox): Protections => {
  const { readable } = sandbox
  const has = (name: keyof typeof PROTECTIONS): boolean => (protections & PROTECTIONS[name]) !== 0
  const all: [boolean, string, string][] = [
    [
      readable === null,
      "the environment and memory of Ork cannot be read",
      `the environment and memory of Ork can be read: ${readable}`,
    ],
    [has("confined"), "no new privileges, limits of processes, memory and files", "the compiled helper is not in use"],
    [
      has("namespace"),
      isRoot() ? "pid and mount namespaces" : "user, pid and mount namespaces",
      "namespaces: the kernel or the container does not allow them",
    ],
    [
      has("hidden"),
      "the data folder is hidden",
      sandbox.hide.length === 0
        ? "the data folder is visible, because it contains the working folder"
        : "the data folder is visible, because there is no mount namespace",
    ],
  ]
  if (has("namespace")) {
    const closed = "sockets of systemd and D-Bus are hidden, ork.yaml and the programs that Ork has compiled are read-only"
    all.push([has("closed"), closed, "tasks can use systemd, and change ork.yaml and the programs that Ork has compiled"])
  } else {
    const landlock = has("signals")
      ? "no access to other processes, no signals to them (Landlock)"
      : "no access to other processes (Landlock)"
    all.push([has("landlock"), landlock, "Landlock: the kernel does not support it"])
  }
  if (isRoot() && sandbox.user !== null) {
    all.push([has("user"), `tasks run as the user ${sandbox.user.name}`, `the user ${sandbox.user.name} cannot be used`])
  } else if (isRoot()) {
    all.push([
      has("root"),
      "root in tasks cannot mount, nor trace or signal other processes, but can change every file",
      "root in tasks has every right of Ork",
    ])
    if (sandbox.noUser !== null) all.push([false, "", `tasks run as root: ${sandbox.noUser}`])
  }
  return {
    active: all.flatMap(([active, text]) => (active ? [text] : [])),
    missing: all.flatMap(([active, , text]) => (active ? [] : [text])),
  }
}
