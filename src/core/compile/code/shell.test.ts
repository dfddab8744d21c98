import { execFileSync } from "node:child_process"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { compileShell } from "./shell.ts"

const shell = (text: string): string => compileShell(text).command.shell
const problems = (text: string): string[] => compileShell(text).problems

/** Runs the compiled script with every variable set to the value. */
const run = (text: string, value: string, program = "sh"): string => {
  const { command, problems: found } = compileShell(text)
  expect(found).toEqual([])
  const env = Object.fromEntries(command.vars.map(({ name }) => [name, value]))
  return execFileSync(program, ["-c", command.shell], { env: { PATH: process.env["PATH"] ?? "", ...env }, encoding: "utf8" })
}

describe("an expression in a shell command", () => {
  it.each([
    ["echo ${{ params.x }}", 'echo "${ORK_VALUE_0}"'],
    ['echo "${{ params.x }}"', 'echo "${ORK_VALUE_0}"'],
    ['echo "a ${{ x }} b"', 'echo "a ${ORK_VALUE_0} b"'],
    ["echo a${{ x }}b", 'echo a"${ORK_VALUE_0}"b'],
    ["echo ${{ a }} ${{ b }} ${{ a }}", 'echo "${ORK_VALUE_0}" "${ORK_VALUE_1}" "${ORK_VALUE_0}"'],
    ["X=${{ x }} run", 'X="${ORK_VALUE_0}" run'],
    ['echo "$(cat ${{ x }})"', 'echo "$(cat "${ORK_VALUE_0}")"'],
    ["echo `cat ${{ x }}`", 'echo `cat "${ORK_VALUE_0}"`'],
    ['echo "${y:-${{ x }}}"', 'echo "${y:-${ORK_VALUE_0}}"'],
    ["echo ${y:-${{ x }}}", 'echo ${y:-"${ORK_VALUE_0}"}'],
    ["echo 'it''s' ${{ x }}", "echo 'it''s' \"${ORK_VALUE_0}\""],
    ["echo \\' ${{ x }} \\'", "echo \\' \"${ORK_VALUE_0}\" \\'"],
    ['echo "it\'s ${{ x }}"', 'echo "it\'s ${ORK_VALUE_0}"'],
    ["# don't ${{ x }}\necho ${{ y }}", '# don\'t ${{ x }}\necho "${ORK_VALUE_0}"'],
    ["echo a#b'c' ${{ y }}", "echo a#b'c' \"${ORK_VALUE_0}\""],
    ["echo $#' ' ${{ y }}", "echo $#' ' \"${ORK_VALUE_0}\""],
    ["echo $${{ x }} $$", "echo ${{ x }} $$"],
    ["echo '$${{ x }}'", "echo '${{ x }}'"],
    ['echo ${{ {"a": {"b": "}}"}}.a.b }}', 'echo "${ORK_VALUE_0}"'],
    ["cat <<< ${{ x }}", 'cat <<< "${ORK_VALUE_0}"'],
    ["cat <<EOF\n'\nEOF\necho ${{ x }}", 'cat <<EOF\n\'\nEOF\necho "${ORK_VALUE_0}"'],
    ["cat <<-'A B'\n\t$(\n\tA B\necho ${{ x }}", "cat <<-'A B'\n\t$(\n\tA B\necho \"${ORK_VALUE_0}\""],
    ["x=$(case $y in a) echo 1;; esac) f ${{ x }}", 'x=$(case $y in a) echo 1;; esac) f "${ORK_VALUE_0}"'],
    ['echo "$(case $y in a) echo ${{ x }};; esac)"', 'echo "$(case $y in a) echo "${ORK_VALUE_0}";; esac)"'],
    ["(cd x && ls ${{ x }}); echo '('", "(cd x && ls \"${ORK_VALUE_0}\"); echo '('"],
    ["echo $((1<<2)) ${{ x }}", 'echo $((1<<2)) "${ORK_VALUE_0}"'],
    ["sh -c 'echo \"$1\"' _ ${{ x }}", 'sh -c \'echo "$1"\' _ "${ORK_VALUE_0}"'],
    ["echo no expressions at all", "echo no expressions at all"],
  ])("%j becomes %j", (text, expected) => {
    expect(problems(text)).toEqual([])
    expect(shell(text)).toBe(expected)
  })

  it.each([
    ["echo '${{ x }}'", "single quotes"],
    ["echo 'a' \"b\" 'c ${{ x }}'", "single quotes"],
    ["echo \"$(echo '${{ x }}')\"", "single quotes"],
    ["echo $'a\\'${{ x }}'", "single quotes"],
    ["cat <<EOF\n${{ x }}\nEOF", "heredoc"],
    ["cat <<'EOF'; echo hi\n${{ x }}\nEOF", "heredoc"],
    ["cat <<-EOF\n\tEO\n\t${{ x }}\n\tEOF", "heredoc"],
    ["x=$(cat <<EOF\n${{ x }}\nEOF\n)", "heredoc"],
    ['sh -c "echo ${{ x }}"', "sh -c"],
    ["sh -c 'echo ${{ x }}'", "sh -c"],
    ["sh -c echo\\ ${{ x }}", "sh -c"],
    ['/bin/bash -euc "echo ${{ x }}"', "bash -c"],
    ['sudo -u me bash -lc "run $(id ${{ x }})"', "bash -c"],
    ['"bash" -c "${{ x }}"', "bash -c"],
    ['xargs -n1 sh -c "${{ x }}"', "sh -c"],
    ["eval echo ${{ x }}", "eval"],
    ['if true; then eval "${{ x }}"; fi', "eval"],
    ['trap "rm ${{ x }}" EXIT', "trap"],
    ["echo $(( ${{ x }} + 1 ))", "$(( ))"],
    ['echo "$(( (1) + ${{ x }} ))"', "$(( ))"],
  ])("%j is a problem: %s", (text, reason) => {
    expect(problems(text)).toEqual([expect.stringContaining(reason)])
  })

  it("may be unclosed, which is reported", () => {
    expect(compileShell("echo ${{ x").unclosed).toBe(true)
    expect(compileShell("echo ${{ x }}").unclosed).toBe(false)
  })

  const nasty = fc.oneof(
    fc.string({ unit: fc.constantFrom(..."ab '\"\\$`(){}[]*?!#&|;<>~=\n\t-".split("")), maxLength: 30 }),
    fc.string({ unit: "grapheme", maxLength: 30 }),
    fc.constantFrom(
      "$(touch /nowhere/x)",
      "`id`",
      "'; exit 9; '",
      '"; exit 9; "',
      "-n",
      "a  b",
      "\\",
      "${HOME}",
      "EOF\nexit 9",
    ),
  )
  const value = nasty.map((text) => text.replaceAll("\0", ""))

  it.each([
    ["printf %s ${{ v }}", ""],
    ['printf %s "${{ v }}"', ""],
    ["printf %s%s '<' ${{ v }}", "<"],
    ['X=${{ v }}; printf %s "$X"', ""],
    ['X=$(printf %sx ${{ v }}); printf %s "${X%x}"', ""],
    ['X="$(printf %sx "${{ v }}")"; printf %s "${X%x}"', ""],
    ['X=`printf %sx ${{ v }}`; printf %s "${X%x}"', ""],
    ['X="`printf %sx ${{ v }}`"; printf %s "${X%x}"', ""],
    ["sh -c 'printf %s \"$1\"' _ ${{ v }}", ""],
    ['for x in ${{ v }}; do printf %s "$x"; done', ""],
    ["case ${{ v }} in *) printf %s ${{ v }};; esac", ""],
    ["printf %s ${nothing:-${{ v }}}", ""],
    ['f() { printf %s "$1"; }; # it\'s\nf ${{ v }}', ""],
  ])("%j prints exactly the value", (text, prefix) => {
    fc.assert(
      fc.property(value, (given) => {
        expect(run(text, given)).toBe(prefix + given)
      }),
      { numRuns: 25 },
    )
  })

  it("never becomes syntax, in any script", () => {
    const piece = fc.constantFrom(
      "a",
      " ",
      '"',
      "'",
      "\\",
      "$(",
      ")",
      "`",
      "${y:-",
      "}",
      "#",
      "\n",
      ";",
      "<<E\n",
      "E\n",
      "${{ v }}",
      "(",
      "&",
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const { command, problems: found } = compileShell(pieces.join(""))
        if (found.length > 0 || command.vars.length === 0) return
        const run = (given: string): number | null => {
          try {
            execFileSync("sh", ["-c", command.shell], { env: { PATH: "/nowhere", ORK_VALUE_0: given }, stdio: "ignore" })
            return 0
          } catch (error) {
            return (error as { status: number | null }).status
          }
        }
        // The value would exit 42 wherever the shell read it as code.
        expect(run('; exit 42 ;\nexit 42\n)exit 42\n"exit 42\n`exit 42`')).not.toBe(42)
      }),
      { numRuns: 150 },
    )
  })
})
