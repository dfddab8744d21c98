// A shell script that leaves processes behind in every way that is known: in its own group, in a session of their own, forked twice, and
// (`scrubbed`) without an environment. The mark is a number of seconds to sleep, so that each can be found by its arguments.

import { randomInt } from "node:crypto"

export const newMark = (): string => `600.${randomInt(1e9, 1e10)}`

/** How many processes the script leaves, itself included while it lives. */
export const leftBehind = (scrubbed: boolean): number => (scrubbed ? 7 : 6)

/** Says "ready" when all of them run. */
export const leaveBehindScript = (mark: string, scrubbed: boolean): string =>
  [
    `sleep ${mark} &`,
    `setsid sleep ${mark} >/dev/null 2>&1 &`,
    `(setsid sh -c 'sleep ${mark} & sleep ${mark}; :' >/dev/null 2>&1 </dev/null &)`,
    ...(scrubbed ? [`(env -i setsid sleep ${mark} >/dev/null 2>&1 </dev/null &)`] : []),
    `while [ "$(pgrep -c -f '^sleep ${mark}')" -lt ${scrubbed ? 5 : 4} ]; do :; done`,
    `echo ready`,
  ].join("\n")
