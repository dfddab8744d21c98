// What tasks wrote themselves, the ground truth of the campaigns: one line per phase of an attempt. Each line is one append (O_APPEND), so
// the order of the lines is the order of the writes.

import { chmodSync, closeSync, fstatSync, mkdirSync, openSync, readSync } from "node:fs"
import { join } from "node:path"

export interface Entry {
  run: string
  /** With the index of an instance: `items[1]`. */
  task: string
  attempt: number
  attemptId: string
  phase: "start" | "tick" | "end"
  /** The key of the client, or the tick of the schedule, that the run belongs to. */
  key: string
  /** The attempt id that the task read in an output upstream; "-" without one. */
  saw: string
}

export class Journal {
  readonly file: string
  readonly #entries: Entry[] = []
  /** Bytes of the file that `#entries` holds. */
  #size = 0

  /** Creates an empty journal that tasks of any user can append to. */
  constructor(folder: string) {
    mkdirSync(folder, { recursive: true })
    chmodSync(folder, 0o777)
    this.file = join(folder, "journal")
    closeSync(openSync(this.file, "a", 0o666))
    chmodSync(this.file, 0o666)
  }

  /** A script that writes its start, `ticks` lines while it works, and its end, and outputs the id of its attempt. */
  script({ ticks = 3, tickSeconds = 0.03 }: { ticks?: number; tickSeconds?: number } = {}): string {
    return [
      "name=$ORK_TASK_NAME${ORK_PARALLEL_INDEX:+[$ORK_PARALLEL_INDEX]}",
      `note() { echo "$ORK_RUN_ID $name $ORK_ATTEMPT $ORK_ATTEMPT_ID $1 \${KEY:--} \${SAW:--}" >> ${this.file}; }`,
      "note start",
      `left=${ticks}`,
      `while [ $left -gt 0 ]; do sleep ${tickSeconds}; note tick; left=$((left - 1)); done`,
      "note end",
      'echo "{\\"by\\":\\"$ORK_ATTEMPT_ID\\"}"',
    ].join("\n")
  }

  /** Returns all entries; reads only what was appended since the last call. */
  read(): readonly Entry[] {
    const appended = readFrom(this.file, this.#size)
    // Text behind the last newline is a line that is being written.
    const complete = appended.subarray(0, appended.lastIndexOf("\n") + 1)
    this.#size += complete.length
    for (const line of complete.toString().split("\n").slice(0, -1)) this.#entries.push(parseLine(line))
    return this.#entries
  }
}

const readFrom = (path: string, offset: number): Buffer => {
  const file = openSync(path, "r")
  try {
    const bytes = Buffer.alloc(fstatSync(file).size - offset)
    return bytes.subarray(0, readSync(file, bytes, 0, bytes.length, offset))
  } finally {
    closeSync(file)
  }
}

const parseLine = (line: string): Entry => {
  const [run, task, attempt, attemptId, phase, key, saw] = line.split(" ")
  if (saw === undefined) throw new Error(`the journal has a line that no task writes: ${JSON.stringify(line)}`)
  return { run, task, attempt: Number(attempt), attemptId, phase, key, saw } as Entry
}
