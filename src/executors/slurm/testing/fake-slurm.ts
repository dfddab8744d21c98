// A fake of Slurm's commands: four shell scripts that run jobs as processes of this machine, with faults that tests inject. By
// default, its squeue does not support --json, like that of a Slurm that was built without it.

import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

/**
 * `next_line FILE` prints the first line that no call has printed, and fails without one. It never writes FILE, which a test may
 * remove.
 */
const SBATCH = `
next_line() {
  number=$(($(cat $D/calls/$1 2> /dev/null | wc -l) + 1))
  line=$(sed -n "$number"p $D/$1 2> /dev/null)
  [ -n "$line" ] && echo "$line" >> $D/calls/$1 && echo "$line" >&2
}
echo "$*" >> $D/calls/sbatch
for arg; do case $arg in --job-name=*) name=\${arg#*=};; --array=*) array=\${arg#*=};; --output=*) out=\${arg#*=};; esac; done
script=$(cat)
next_line reject && exit 1
id=$(($(ls $D/jobs | wc -l) + 1))
if [ -n "$array" ]; then tasks=$(for range in $(echo $array | tr , ' '); do seq \${range%-*} \${range#*-}; done); else tasks=none; fi
for task in $tasks; do
  index=$task; [ $task = none ] && index=0
  folder=$(dirname $(echo $out | sed "s/%a/$index/"))
  state=RUNNING; [ ! -e $D/pending ] || state="PENDING $(cat $D/pending)"
  echo "$name $task $state" > $D/jobs/$id.$task
  [ -e $D/hold ] || [ -e $D/pending ] || (
    SLURM_ARRAY_TASK_ID=$index sh -c "$script" >> $folder/stdout 2>> $folder/stderr < /dev/null
    echo "$name $task COMPLETED" > $D/jobs/$id.$task
  ) > /dev/null 2>&1 &
done
next_line lose && exit 1
echo $id`

const SCONTROL = `
echo "$*" >> $D/calls/scontrol
if [ "$2" = config ]; then echo 'MaxArraySize            = 4'; exit; fi
if [ -e $D/down ]; then echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1; fi
for file in $D/jobs/*; do
  [ -e $file ] || continue
  read name task state reason < $file
  id=$(basename $file); id=\${id%.*}
  array=""; [ $task = none ] || array="ArrayJobId=$id ArrayTaskId=$task "
  echo "JobId=$id \${array}JobName=$name JobState=$state Reason=\${reason:-None} ExitCode=0:0"
done`

/** A real squeue exits with 0 when it cannot reach the controller, and prints no jobs. */
const SQUEUE = `
echo "$*" >> $D/calls/squeue
if [ ! -e $D/json ]; then echo "squeue: unrecognized option '--json'" >&2; exit 1; fi
if [ -e $D/down ]; then
  echo '{"errors":[{"error_number":1,"error":"Unable to contact slurm controller (connect failure)"}],"jobs":[]}'
  exit
fi
echo '{"errors":[],"jobs":['
separator=""
for file in $D/jobs/*; do
  [ -e $file ] || continue
  read name task state reason < $file
  id=$(basename $file); id=\${id%.*}
  array=""; [ $task = none ] || array=$(printf '"array_job_id":%s,"array_task_id":%s,' $id $task)
  printf '%s{"job_id":%s,%s"name":"%s","job_state":"%s","state_reason":"%s"}' "$separator" $id "$array" $name $state \${reason:-None}
  separator=","
done
echo ']}'`
const SCANCEL =
  'echo "$*" >> $D/calls/scancel; if [ -e $D/down ]; then echo "scancel: error: Unable to contact slurm controller" >&2; exit 1; fi; case "$*" in *TERM*) exit;; esac; for id; do :; done; task=${id#*_}; [ $task = $id ] && task=none; for f in $D/jobs/${id%_*}.$task; do [ -e $f ] || { echo "scancel: error: Kill job error on job id $id: Invalid job id specified" >&2; exit 1; }; sed -i -E "s/(RUNNING|PENDING.*)/CANCELLED/" $f; done'

export class FakeSlurm {
  readonly folder = mkdtempSync(join(tmpdir(), "ork-fake-slurm-"))

  constructor() {
    for (const name of ["bin", "calls", "jobs"]) mkdirSync(join(this.folder, name))
    for (const [name, script] of Object.entries({ sbatch: SBATCH, scontrol: SCONTROL, squeue: SQUEUE, scancel: SCANCEL })) {
      const path = join(this.folder, "bin", name)
      writeFileSync(path, `#!/bin/sh\nD=${this.folder}\n${script}\n`)
      chmodSync(path, 0o755)
    }
  }

  get env(): { PATH: string } {
    return { PATH: `${join(this.folder, "bin")}:${process.env["PATH"] ?? ""}` }
  }

  /**
   * Injects a fault. `reject`: sbatch fails with a line of the text for each submission; `lose`: it does so after it submitted
   * the job; `hold`: jobs run nothing; `pending`: jobs wait, with the text as reason; `down`: the controller does not respond; `json`:
   * squeue supports --json.
   */
  set(file: "reject" | "lose" | "hold" | "pending" | "down" | "json", text = "x\n"): void {
    writeFileSync(join(this.folder, file), text)
  }

  clear(file: "down" | "reject"): void {
    rmSync(join(this.folder, file))
  }

  /** Returns the arguments of all calls of a command. */
  calls(command: "sbatch" | "scancel" | "scontrol" | "squeue"): string[] {
    try {
      return readFileSync(join(this.folder, "calls", command), "utf8")
        .trim()
        .split("\n")
    } catch {
      return []
    }
  }

  /** Sets the state of all jobs, or the state and its reason (`PENDING Priority`); null removes them from the queue. */
  setState(state: string | null): void {
    for (const name of readdirSync(join(this.folder, "jobs"))) {
      const path = join(this.folder, "jobs", name)
      if (state === null) rmSync(path)
      else writeFileSync(path, `${readFileSync(path, "utf8").split(" ", 2).join(" ")} ${state}\n`)
    }
  }

  /** Removes one job or task from the queue: `1`, or `1.0`. */
  forget(job: string): void {
    rmSync(join(this.folder, "jobs", job))
  }

  stop(): void {
    rmSync(this.folder, { recursive: true, force: true })
  }
}
