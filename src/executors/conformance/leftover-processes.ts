// A shell script that leaves processes in every known way: in its own process group, in their own session, forked twice, and
// (`scrubbed`) without an environment. The mark is the number of seconds that they sleep, so that each can be found by its
// arguments.

import { randomInt } from "node:crypto"

export const newMark = (): string => `600.${randomInt(1e9, 1e10)}`

/** Returns the number of processes of the script, including itself. */
export const leftoverCount = (scrubbed: boolean): number => (scrubbed ? 7 : 6)

/** The script prints "ready" when all of its processes run. */
export const leftoverScript = (mark: string, scrubbed: boolean): string =>
  [
    `sleep ${mark} &`,
    `setsid sleep ${mark} >/dev/null 2>&1 &`,
    `(setsid sh -c 'sleep ${mark} & sleep ${mark}; :' >/dev/null 2>&1 </dev/null &)`,
    ...(scrubbed ? [`(env -i setsid sleep ${mark} >/dev/null 2>&1 </dev/null &)`] : []),
    `while [ "$(pgrep -c -f '^sleep ${mark}')" -lt ${scrubbed ? 5 : 4} ]; do :; done`,
    `echo ready`,
  ].join("\n")
