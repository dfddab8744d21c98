// A value never becomes code: commands that would run it are rejected, and accepted commands run hostile values as data.

import { spawn } from "node:child_process"
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { ACCEPTED, hostileValues } from "../../../../test/support/hostile-values.ts"
import { parseValue } from "../../../definition/parse.ts"
import { compileShell } from "./shell.ts"

const problemsOf = (task: object): string[] => {
  const parsed = parseValue({ name: "w", params: { x: "a" }, tasks: { t: task } })
  return parsed.ok ? [] : parsed.problems.map(({ message }) => message)
}

const X = "${{ params.x }}"

describe("a command that would run a value as code is rejected:", () => {
  it.each([
    // Code options, clustered, split and attached.
    [`python3 -c "print('${X}')"`, "python3 runs as code"],
    [`/usr/bin/python3.12 -Ic "${X}"`, "python3.12 runs as code"],
    [`python3 -W ignore -c ${X}`, "python3 runs as code"],
    [`python3 -c"${X}"`, "python3 runs as code"],
    [`python3 -m ${X}`, "python3 runs as code"],
    [`node -e "${X}"`, "node runs as code"],
    [`node -pe "${X}"`, "node runs as code"],
    [`node --eval="${X}"`, "node runs as code"],
    [`node --max-old-space-size 4096 -e "${X}"`, "node runs as code"],
    [`node -r ${X} app.js`, "node runs as code"],
    [`perl -e "${X}"`, "perl runs as code"],
    [`perl -lane "${X}"`, "perl runs as code"],
    [`ruby -e "${X}"`, "ruby runs as code"],
    [`php -r "${X}"`, "php runs as code"],
    [`awk "${X}" file`, "awk runs as code"],
    [`awk -F: -v a=1 "/${X}/" file`, "awk runs as code"],
    [`sed "s/a/${X}/" file`, "sed runs as code"],
    [`sed -n -e p -e "${X}" file`, "sed runs as code"],
    [`sed --expression="${X}" file`, "sed runs as code"],
    [`bash -ce "echo ${X}"`, "bash -c"],
    [`bash -o pipefail -c "echo ${X}"`, "bash -c"],
    [`sh -c -e "echo ${X}"`, "sh -c"],
    [`env -S "${X}"`, "env runs as code"],
    [`env --split-string="${X}"`, "env runs as code"],
    [`env A=b sh -c "${X}"`, "sh -c"],
    [`flock /tmp/lock -c "echo ${X}"`, "flock runs as code"],
    [`script -qc "echo ${X}" /dev/null`, "script runs as code"],
    [`su nobody -c "echo ${X}"`, "su runs as code"],
    [`timeout 5 bash -lc "${X}"`, "bash -c"],
    [`docker exec box sh -c "echo ${X}"`, "sh -c"],
    [`find . -exec sh -c "echo ${X}" \\;`, "sh -c"],
    [`xargs -n1 sh -c "${X}" < list`, "sh -c"],
    [`echo "${X}" | xargs -I{} sh -c 'echo {}'`, "xargs sh reads its code"],
    [`echo ${X} | xargs sh -c`, "sh reads its code"],
    [`echo ${X} | sudo xargs -n1 python3`, "xargs python3 reads its code"],
    [`ssh host "ls ${X}"`, "is part of the command of ssh"],
    [`ssh host ls ${X}`, "send it through standard input: printf '%s\\n' ${{ … }} | ssh HOST 'read -r x;"],
    [`sshpass -e ssh host ls ${X}`, "is part of the command of ssh"],
    [`$SHELL -c ${X}`, "the program that a variable names runs as code"],
    [`"$SHELL" -lc "echo ${X}"`, "the program that a variable names runs as code"],
    [`$SUDO sh -c "echo ${X}"`, "sh -c"],
    [`env A=b $SHELL -c ${X}`, "the program that a variable names runs as code"],
    [`sudo -u bob "$SHELL" -c "echo ${X}"`, "the program that a variable names runs as code"],
    [`xonsh -c ${X}`, "xonsh runs as code"],
    [`screen -dm sh ${X}`, "screen runs as code"],
    [`screen -S s -X stuff ${X}`, "screen runs as code"],
    [`tmux new-session -d "echo ${X}"`, "tmux runs as code"],
    [`tmux send-keys -t s ${X} Enter`, "tmux runs as code"],
    [`sg users -c "echo ${X}"`, "sg runs as code"],
    [`sg users "echo ${X}"`, "sg runs as code"],
    [`npm exec -c "echo ${X}"`, "npm runs as code"],
    [`npm exec --call="echo ${X}"`, "npm runs as code"],
    [`npx -c ${X}`, "npx runs as code"],
    [`nix-shell -p jq --run "echo ${X}"`, "nix-shell runs as code"],
    [`nix-shell --command ${X}`, "nix-shell runs as code"],
    [`nix-build -E ${X}`, "nix-build runs as code"],
    [`socat - EXEC:${X}`, "socat runs as code"],
    [`socat - TCP:${X}:80`, "socat runs as code"],
    [`hash -p ${X} ls; ls`, "hash runs as code"],
    [`enable -f ${X} x`, "enable runs as code"],
    [`zip -T -TT ${X} a.zip b`, "zip runs as code"],
    [`echo ${X} | crontab -`, "crontab reads its code"],
    [`crontab ${X}`, "would choose the script that crontab runs"],
    [`nc -e ${X} host 1`, "nc runs as code"],
    [`ncat --sh-exec ${X} host 1`, "ncat runs as code"],
    [`wget -e ${X} https://example.com`, "wget runs as code"],
    [`ansible all -m shell -a ${X}`, "ansible runs as code"],
    [`psql -c "select '${X}'"`, "psql runs as code"],
    [`sqlite3 my.db "select '${X}'"`, "sqlite3 runs as code"],
    [`make DAY=${X}`, "make runs as code"],
    [`tar xf a.tar --use-compress-program=${X}`, "tar runs as code"],
    [`tar xf a.tar -I ${X}`, "tar runs as code"],
    [`git -c core.sshCommand=${X} fetch`, "git runs as code"],
    // Standard input.
    [`echo ${X} | sh`, "is piped there: sh reads its code"],
    [`echo ${X} | tr a b | bash -s`, "is piped there: bash reads its code"],
    [`{ echo ${X}; echo done; } | sh`, "is piped there: sh reads its code"],
    [`(cd x; echo ${X}) | sh -e`, "is piped there: sh reads its code"],
    [`echo ${X} | { read a; sh; }`, "is piped there: sh reads its code"],
    [`for i in 1; do echo ${X}; done | python3 -`, "is piped there: python3 reads its code"],
    [`echo ${X} | sudo bash`, "is piped there: bash reads its code"],
    [`echo ${X} > >(sh)`, "is piped there: sh reads its code"],
    [`sh <<< "${X}"`, "is redirected there: sh reads its code"],
    [`bash < ${X}`, "is redirected there: bash reads its code"],
    [`X=${X}\nsh <<EOF\necho $X\nEOF`, "quote its delimiter"],
    [`bash <(echo ${X})`, "would choose the script that bash runs"],
    ["sh", "which is the input of the task"],
    // Files and programs that a value chooses.
    [`. ${X}`, "would choose the script that . runs"],
    [`source ./lib/${X}`, "would choose the script that source runs"],
    [`python3 ${X}`, "would choose the script that python3 runs"],
    [`${X} --help`, "would choose the program"],
    [`exec ${X}`, "would choose the program"],
    [`sudo -u bob ${X} a`, "would choose the program"],
    [`sudo A=b ${X}`, "would choose the program"],
    [`timeout 5 ${X}`, "would choose the program"],
    [`nice -n 5 ${X}`, "would choose the program"],
    [`npx ${X}`, "would choose the program"],
    [`npm exec ${X}`, "would choose the program"],
    [`uv run ${X}`, "would choose the program"],
    [`sudo --login-class staff sh -c ${X}`, "sh -c"],
    // The shell itself.
    [`eval "echo ${X}"`, "uses eval"],
    [`X=${X}; eval echo '$X'`, "uses eval"],
    [`command eval ${X}`, "uses eval"],
    [`trap "rm ${X}" EXIT`, "trap runs as code"],
    [`[[ ${X} -eq 1 ]]`, "[[ runs as code"],
    [`[[ 1 -lt ${X} ]] && echo yes`, "[[ runs as code"],
    [`test -v ${X}`, "test runs as code"],
    [`(( ${X} > 1 ))`, "$(( ))"],
    [`for ((i=0; i<${X}; i++)); do :; done`, "$(( ))"],
    [`echo $[ ${X} ]`, "$(( ))"],
    [`echo \${y:${X}}`, "$(( ))"],
    [`echo \${y[${X}]}`, "$(( ))"],
    [`y[${X}]=1`, "index of an array"],
    [`let a=${X}`, "let runs as code"],
    [`declare -i a=${X}`, "declare runs as code"],
    [`unset ${X}`, "unset runs as code"],
    [`printf -v ${X} a`, "printf runs as code"],
    // Variables that carry a value, and variables that load code.
    [`X=${X}; python3 -c "print('$X')"`, "$X is part of what python3 runs as code"],
    [`X=${X}; Y="a $X"; sh -c "echo \${Y}"`, "$Y is part of the script of sh -c"],
    [`for X in ${X}; do sh -c "echo $X"; done`, "$X is part of the script of sh -c"],
    [`f() { sh -c "$1"; }; f ${X}`, "$1 is part of the script of sh -c"],
    [`X=${X}; echo "$X" | sh`, "$X is piped there"],
    [`LD_PRELOAD=${X} ls`, "is the value of LD_PRELOAD"],
    [`export PATH=${X}:$PATH`, "is the value of PATH"],
    [`env NODE_OPTIONS=${X} node app.js`, "is the value of NODE_OPTIONS"],
  ])("%s", (command, message) => {
    expect(problemsOf({ command })).toEqual([expect.stringContaining(message)])
  })

  it.each([
    [["python3", "-c", `print(${X})`], "python3 runs as code"],
    [["bash", "-ce", `echo ${X}`], "bash -c"],
    [["sh", "-c", "-e", X], "sh -c"],
    [["env", "-S", X], "env runs as code"],
    [["tar", "xf", "a.tar", `--use-compress-program=${X}`], "tar runs as code"],
    [["awk", `{print ${X}}`], "awk runs as code"],
    [[X, "a"], "would choose the program"],
    [["sh"], "which is the input of the task"],
  ])("%j", (command, message) => {
    expect(problemsOf({ command })).toEqual([expect.stringContaining(message)])
  })

  it("in the entrypoint of a container", () => {
    const container = { executor: "docker", image: "alpine", docker: { entrypoint: ["sh", "-c"] } }
    expect(problemsOf({ ...container, command: [`echo ${X}`] })).toEqual([expect.stringContaining("sh -c")])
    expect(problemsOf({ ...container, docker: { entrypoint: ["sh", "-c", `echo ${X}`] } })).toEqual([
      expect.stringContaining("sh -c"),
    ])
    expect(problemsOf({ ...container, command: ['echo "$0"', X] })).toEqual([])
  })

  it.each([
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "NODE_OPTIONS",
    "BASH_ENV",
    "ENV",
    "PYTHONPATH",
    "PERL5LIB",
    "PATH",
    "GIT_SSH_COMMAND",
  ])("in the variable %s", (name) => {
    expect(problemsOf({ command: "ls", env: { [name]: `a${X}` } })).toEqual([expect.stringContaining(`the value of ${name}`)])
    expect(problemsOf({ command: "ls", env: { [name]: "fixed" } })).toEqual([])
  })

  it("through a variable of `env`", () => {
    expect(problemsOf({ command: 'sh -c "echo $DAY"', env: { DAY: X } })).toEqual([expect.stringContaining("$DAY is part of")])
    expect(problemsOf({ command: 'sh -c "echo $DAY"', env: { DAY: "monday" } })).toEqual([])
    expect(problemsOf({ command: "sh -c 'echo \"$DAY\"'", env: { DAY: X } })).toEqual([])
  })
})

describe("an ordinary command is accepted:", () => {
  it.each([
    `./list.sh ${X}`,
    `./load.sh --day=${X} --out "out/${X}.csv"`,
    `python3 load.py ${X} -c ${X}`,
    `python3 -m pkg.tool --config ${X}`,
    `python3 -c 'import sys; print(sys.argv[1])' --day ${X}`,
    `python3 jobs/${X}.py`,
    `node app.js -e ${X} --eval ${X}`,
    `node --version && ./run ${X}`,
    `bash script.sh -c ${X}`,
    `sh -c 'echo "$1"' -- ${X}`,
    `sh -e -c 'echo "$1"' _ ${X}`,
    `awk -v day=${X} '$1 == day' file`,
    `awk '{ print }' ${X}`,
    `sed -n 1p ${X}`,
    `sed -e 's/a/b/' -- ${X}`,
    `grep -e ${X} file`,
    `X=${X}; grep "$X" file | sort | head -n 5`,
    `echo ${X} | tr a-z A-Z`,
    `echo ${X} | python3 filter.py`,
    `echo ${X} | sh ./filter.sh`,
    `python3 <<'EOF'\nprint(1)\nEOF\necho ${X}`,
    `X=${X}\ncat <<EOF\nthe day is $X\nEOF`,
    `. venv/bin/activate; python3 load.py ${X}`,
    `curl -fsS https://example.com/setup.sh | sh; ./run ${X}`,
    `zcat dump.gz | psql shop_${X}`,
    `psql -v day=${X} -f load.sql`,
    `tar czf backup-${X}.tar.gz data`,
    `docker run --name ${X} alpine echo ${X}`,
    `git commit -m ${X}`,
    `git switch -c ${X}`,
    `ssh host ls < ${X}`,
    `printf '%s\\n' ${X} | ssh host 'read -r x; ls -- "$x"'`,
    `$RUN ${X} --day ${X}`,
    `$PYTHON load.py ${X}`,
    `./tool -c ${X}`,
    `head -c ${X} file`,
    `wget -O ${X} "https://example.com/${X}"`,
    `nc -w ${X} host 1`,
    `crontab jobs.cron; echo ${X}`,
    `npm run build -- --day=${X}`,
    `zip -r out-${X}.zip data`,
    `tmux new -d -s ${X}`,
    `curl "https://example.com/?day=${X}" -o ${X}`,
    `timeout ${X} ./run.sh`,
    `[ ${X} = a ] && echo yes`,
    `test ${X} -gt 3`,
    `if [[ ${X} == a* ]]; then echo yes; fi`,
    `case ${X} in a) python3 a.py;; *) exit 1;; esac`,
    `for x in ${X}; do echo "$x"; done`,
    `f() { echo "$1"; }; f ${X}`,
    `export DAY=${X}; make report`,
    `find . -name ${X} -exec rm {} \\;`,
    `find . -type f -print0 | xargs -0 rm -- ${X}`,
    `printf '%s\\n' ${X} | xargs -n1 sh -c 'echo "$1"' _`,
    `printf '%s\\n' ${X} | xargs -n1 python3 report.py`,
    `ls &> ${X}.log`,
    `cmd 2>&1 > ${X}`,
    `make report`,
    `sudo systemctl restart ${X}`,
    `sudo -u bob ./run ${X}`,
    `nice -n 5 ./run.sh ${X} -c ${X}`,
    `npx tool --day ${X} ${X}`,
    `npm exec tool -- ${X}`,
    `npm run ${X}`,
    `uv run load.py ${X}`,
    `poetry run python load.py ${X}`,
    `env A=${X} ./run ${X}`,
    "sh ./setup.sh",
    "curl -fsS https://example.com/setup.sh | sh",
  ])("%s", (command) => {
    expect(problemsOf({ command })).toEqual([])
  })
})

/** Runs a script with the value of its expression, as a task does. */
const run = (shell: string, script: string, value: string, folder: string): Promise<void> =>
  new Promise((resolve) => {
    const env = { PATH: process.env["PATH"], ORK_VALUE_0: value }
    const child = spawn(shell, ["-c", script], { cwd: folder, env, stdio: "ignore", timeout: 60_000 })
    child.on("close", () => resolve())
  })

/** Returns one script with all accepted forms, each in a subshell. `isOption`: without those in which a task with such a value fails. */
const acceptedScript = (shell: string, isOption: boolean): string =>
  ACCEPTED.filter((text) => shell === "bash" || !text.includes("<<<"))
    .map((text) => compileShell(text).command)
    .filter(({ guarded }) => !isOption || guarded === undefined)
    .map((command) => `(\n${command.shell}\n)`)
    .join("\n")

describe("hostile values", () => {
  /** 10,000 values take ten minutes or more. */
  const COUNT = Number(process.env["ORK_HOSTILE_VALUES"] ?? (process.env["ORK_TEST_ALL"] === "1" ? 1000 : 40))

  it(`create no canary file in any accepted form (${COUNT} values)`, { timeout: 3_600_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "ork-hostile-"))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const canary = join(folder, "canary")
    writeFileSync(join(folder, "a"), "")
    for (const text of ACCEPTED) expect(problemsOf({ command: text }), text).toEqual([])
    const values = hostileValues(COUNT, canary)
    const next = values.entries()
    const work = async (): Promise<void> => {
      for (const [i, value] of next) {
        const shell = i % 2 === 0 ? "sh" : "bash"
        await run(shell, acceptedScript(shell, value.startsWith("-")), value, folder)
        if (existsSync(canary)) throw new Error(`this value ran as code: ${JSON.stringify(value)}`)
      }
    }
    await Promise.all([work(), work()])
    expect(existsSync(canary)).toBe(false)
  })

  it("do create it where a command would run them", async () => {
    const folder = mkdtempSync(join(tmpdir(), "ork-hostile-"))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const canary = join(folder, "canary")
    for (const value of hostileValues(20, canary)) {
      await run("sh", 'eval "$ORK_VALUE_0"', value, folder)
    }
    expect(existsSync(canary)).toBe(true)
  })
})
