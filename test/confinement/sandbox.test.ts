// What a task can reach of the Ork that runs it: nothing but its own folders. Each test starts the built command, as root and as a
// user without rights.

import { execFile, execFileSync } from "node:child_process"
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { describe, expect, test } from "vitest"
import { temporaryFolder } from "../support/ork.ts"
import { AS_NOBODY } from "../support/program-for-nobody.ts"
import { isRoot, nobodysFolder, orkForEveryUser } from "../support/users.ts"

const run = promisify(execFile)

const program = orkForEveryUser()

const SECRET = "canary-5d1f0c"

/** A task that tries everything, and returns what worked. */
const SPY = `name: spy
tasks:
  first:
    command: echo '{"rows":[1,2]}' > "$ORK_OUTPUT"; echo kept > kept.txt
  spy:
    depends_on: [first]
    command: |
      found=
      cat .ork/ork.db .ork/ork.db-wal .ork/objects/* >/dev/null 2>&1 && found="$found data"
      ls .ork/objects >/dev/null 2>&1 && found="$found objects"
      cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -q ${SECRET} && found="$found environment"
      unshare -m sh -c 'umount -l .ork; umount -l /proc; ls .ork/objects' >/dev/null 2>&1 && found="$found mounts"
      kill -9 "$ORK_TEST_PID" 2>/dev/null && found="$found signal"
      cat "/proc/$ORK_TEST_PID/mem" >/dev/null 2>&1 && found="$found memory"
      grep -q 'NoNewPrivs:.*1' /proc/self/status || found="$found privileges"
      echo visible > /dev/stderr
      echo "{\\"found\\":\\"$found\\",\\"kept\\":\\"$(cat kept.txt)\\",\\"input\\":$(cat "$ORK_INPUT")}" > "$ORK_OUTPUT"
`

interface Result {
  code: number
  stdout: string
  stderr: string
}

const orkAs = async (before: string[], args: string[], cwd: string, env: Record<string, string> = {}): Promise<Result> => {
  const [command, ...rest] = [...before, program, ...args]
  const options = { cwd, env: { PATH: process.env.PATH!, HOME: cwd, ...env } }
  return run(command!, rest, options).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: unknown) => ({ code: 1, ...(error as { stdout: string; stderr: string }) }),
  )
}

const users: [string, string[], () => string, boolean][] = [
  ["root", [], temporaryFolder, isRoot],
  ["a user without rights", AS_NOBODY, nobodysFolder, isRoot],
  ["this user", [], temporaryFolder, !isRoot],
]

/**
 * Runs a script and then a command in a mount namespace of its own, in which the script can change /etc and /run. Needs root; `as`: the
 * command line that changes the user.
 */
const withSystem = (script: string, as: string[]): string[] => {
  const folder = temporaryFolder()
  chmodSync(folder, 0o755)
  const prepare = `set -e; cd ${folder}; mkdir -p etc run; cp -a /etc/. etc; mount --bind etc /etc; mount --bind run /run; cd - > /dev/null`
  return ["unshare", "--mount", "sh", "-c", `${prepare}\n${script}\nexec "$@"`, "sh", ...as]
}

const linesOf = async (script: string, before: string[], cwd: string): Promise<string[]> => {
  writeFileSync(join(cwd, "one.yaml"), JSON.stringify({ name: "one", tasks: { a: { command: script } } }))
  const { stdout, stderr } = await orkAs(before, ["run", "one.yaml", "--json"], cwd)
  const last = JSON.parse(stdout.trim().split("\n").at(-1) ?? "{}") as { id?: string }
  if (last.id === undefined) throw new Error(stderr)
  return (await orkAs(before, ["logs", last.id, "a"], cwd)).stdout.trim().split("\n")
}

/** A user for whom files of root belong to somebody else in a user namespace: there, they seem to belong to `nobody`. */
const asDaemon = ["setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups"]
const daemonsFolder = (): string => {
  const folder = nobodysFolder()
  execFileSync("chown", ["daemon:daemon", folder])
  return folder
}

const SSH_FILES = `
mkdir -p /etc/ssh/ssh_config.d /etc/crypto-policies/back-ends
echo 'Include /etc/ssh/ssh_config.d/*.conf' > /etc/ssh/ssh_config
printf 'Include /etc/crypto-policies/back-ends/openssh.config\nHost there\n  HostName of-root\n' > /etc/ssh/one.conf
ln -sf ../one.conf /etc/ssh/ssh_config.d/50-one.conf
echo 'ConnectTimeout 7' > /etc/crypto-policies/back-ends/openssh.config
`

const SOCKETS = `
mkdir -p /run/user/65534/systemd /run/dbus /run/systemd
touch /run/user/65534/bus /run/dbus/system_bus_socket
echo secret > /run/systemd/private
chown -R 65534:65534 /run/user/65534
`

describe.runIf(isRoot)("the system of confined tasks", () => {
  test.each([
    ["root", [], temporaryFolder],
    ["a user without rights", asDaemon, daemonsFolder],
  ] as [string, string[], () => string][])("lets ssh read its configuration: %s", async (_, as, folderOf) => {
    const script = "ssh -G there 2>&1 | grep -E '^(hostname|connecttimeout) |owner' | sort"
    expect(await linesOf(script, withSystem(SSH_FILES, as), folderOf())).toEqual(["connecttimeout 7", "hostname of-root"])
  })

  test("has no socket that starts processes outside", async () => {
    const script = "find /run/user | wc -l; cat /run/systemd/private | wc -c"
    expect(await linesOf(script, withSystem(SOCKETS, AS_NOBODY), nobodysFolder())).toEqual(["1", "7"])
    expect(await linesOf(script, withSystem(SOCKETS, []), temporaryFolder())).toEqual(["1", "0"])
  })

  test("has settings and programs of Ork that a task cannot change", async () => {
    const cwd = nobodysFolder()
    writeFileSync(join(cwd, "ork.yaml"), "concurrency: 2\n")
    chmodSync(join(cwd, "ork.yaml"), 0o666)
    const script =
      "set +e; (echo 'sandbox: off' > ork.yaml; rm ork.yaml; mv ork.yaml x; touch .cache/ork/x) 2>/dev/null; cat ork.yaml"
    expect(await linesOf(script, AS_NOBODY, cwd)).toEqual(["concurrency: 2"])
    expect(readFileSync(join(cwd, "ork.yaml"), "utf8")).toBe("concurrency: 2\n")
    expect(existsSync(join(cwd, ".cache/ork/x"))).toBe(false)
  })
})

describe.each(users.filter(([, , , possible]) => possible))("ork run as %s", (_, before, folderOf) => {
  test("hides the data folder, the environment and the process from its tasks, which keep everything else", async () => {
    const cwd = folderOf()
    writeFileSync(join(cwd, "spy.yaml"), SPY)
    const env = { ORK_SECRET_X: SECRET }
    const shell = `ORK_TEST_PID=$$; export ORK_TEST_PID; sed -i "s/\\$ORK_TEST_PID/$$/g" spy.yaml; exec "$@"`
    const { code, stdout, stderr } = await orkAs([...before, "sh", "-c", shell, "sh"], ["run", "spy.yaml", "--json"], cwd, env)
    expect(stderr).toBe("")
    expect(code).toBe(0)
    const { id } = JSON.parse(stdout.trim().split("\n").at(-1)!) as { id: string }
    const shown = await orkAs(before, ["show", id, "--json"], cwd)
    const { task_list: tasks } = JSON.parse(shown.stdout) as { task_list: { name: string; output: unknown }[] }
    const output = tasks.find(({ name }) => name === "spy")?.output
    expect(output).toEqual({ found: "", kept: "kept", input: { first: { rows: [1, 2] } } })
    expect((await orkAs(before, ["logs", id, "spy"], cwd)).stdout).toContain("visible")
  })

  test("doctor lists the active protections", async () => {
    const { stdout } = await orkAs(before, ["doctor"], folderOf())
    expect(stdout).toMatch(/ok +sandbox +the data folder is hidden/)
    expect(stdout).toMatch(/ok +sandbox +no new privileges, limits of processes, memory and files/)
    expect(stdout).toMatch(/ok +sandbox +the environment and memory of Ork cannot be read/)
    expect(stdout).toMatch(/ok +sandbox +.*pid and mount namespaces/)
  })

  test("`sandbox: required` runs with them, and `sandbox: off` says that there are none", async () => {
    const cwd = folderOf()
    writeFileSync(join(cwd, "one.yaml"), "name: one\ntasks: { a: { command: 'true' } }\n")
    writeFileSync(join(cwd, "ork.yaml"), "sandbox: required\n")
    expect((await orkAs(before, ["run", "one.yaml"], cwd)).code).toBe(0)
    writeFileSync(join(cwd, "ork.yaml"), "sandbox: off\n")
    expect((await orkAs(before, ["run", "one.yaml"], cwd)).code).toBe(0)
    expect((await orkAs(before, ["doctor"], cwd)).stdout).toMatch(/warn +sandbox +off/)
  })
})
