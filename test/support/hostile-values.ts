// Values that try to run `touch CANARY` in a shell, in an interpreter, or as an option of a program.

import { seededRandom } from "../../src/store/conformance/world.ts"

const X = "${{ params.x }}"

/** Forms that are accepted, and that use only programs of every machine. Each runs alone, with the value in every place. */
export const ACCEPTED = [
  `echo ${X} "a ${X}" b${X}c`,
  `printf '%s\\n' ${X}`,
  `X=${X}; echo "$X" "\${X%a}" "\${X:-b}"`,
  `Y=$(echo ${X}); echo "$Y"`,
  `Y=\`echo ${X}\`; echo "$Y"`,
  `echo ${X} | tr a b | sed -n 1p`,
  `sh -c 'echo "$1"' -- ${X}`,
  `awk -v v=${X} 'BEGIN { print v }'`,
  `for x in ${X}; do echo "$x"; done`,
  `case ${X} in a) echo a;; *) echo b;; esac`,
  `[ ${X} = a ] || echo no`,
  `X=${X}\ncat <<EOF\n$X\nEOF`,
  `cat <<< ${X} 2> /dev/null`,
  `f() { echo "$1"; }; f ${X}`,
  `grep -e ${X} /dev/null`,
  `grep -- ${X} /dev/null`,
  `find . -maxdepth 0 -name ${X}`,
  `ls -d -- ${X}`,
  `tar cf - --exclude=${X} /dev/null`,
  `sort -- ${X}`,
  `env A=${X} true`,
  `xargs -0 -n1 echo -- ${X} < /dev/null`,
  `export A=${X}; echo "$A"`,
  `test ${X} = a`,
  `expr x${X} : x`,
  `printf %s ${X} > ./out-file`,
  `cat ./${X}`,
]

const payloads = (canary: string): string[] => {
  const run = `touch ${canary}`
  return [
    run,
    `$(${run})`,
    `\`${run}\``,
    `;${run};`,
    `|${run}`,
    `&&${run}`,
    `\n${run}\n`,
    `';${run};'`,
    `";${run};"`,
    `'$(${run})'`,
    `"$(${run})"`,
    `a[$(${run})]`,
    `x[\`${run}\`]=1`,
    `\${x:=$(${run})}`,
    `\${IFS}`,
    `$'\\x3b${run}'`,
    `<(${run})`,
    `{${run.replace(" ", ",")}}`,
    `EOF\n${run}\nEOF`,
    `__import__('os').system('${run}')`,
    `");__import__("os").system("${run}")#`,
    `require('child_process').execSync('${run}')`,
    `\`+require('child_process').execSync('${run}')+\``,
    `system("${run}")`,
    `@{[system("${run}")]}`,
    `BEGIN{system("${run}")}`,
    `1e ${run}`,
    `s/x/y/;e ${run}`,
    `$(shell ${run})`,
    `\\! ${run}`,
    `.shell ${run}`,
    `--use-compress-program=${run}`,
    `--checkpoint-action=exec=${run}`,
    `-oProxyCommand=${run}`,
    `-c ${run}`,
    `-exec ${run} ;`,
    `-c`,
    `-e`,
    `--eval=${run}`,
    `/dev/stdin`,
    `/proc/self/environ`,
    `%s%n`,
    `() { :;}; ${run}`,
    `LD_PRELOAD=./x.so`,
    `\r\n${run}`,
    `﻿${run}`,
    `＄(${run})`,
    `\\`,
    `*`,
    `~`,
    `!${run}`,
    `#{${run}}`,
    `=cmd|'${run}'`,
  ]
}

const WRAPS = [
  "",
  "'",
  '"',
  "`",
  "$(",
  ")",
  "${",
  "}",
  "\\",
  "\n",
  ";",
  "|",
  "&",
  "<",
  ">",
  "(",
  " ",
  "\t",
  "$'",
  "[[",
  "]]",
  "--",
  "-",
  "=",
  "#",
  "*/",
  "%",
]

/** Returns `count` values, the same for the same seed. The first ones are plain; the others combine payloads and quotes. */
export const hostileValues = (count: number, canary: string, seed = 1): string[] => {
  const plain = payloads(canary)
  const random = seededRandom(seed)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random.next() * list.length)]!
  return Array.from({ length: count }, (_, i) => {
    if (i < plain.length) return plain[i]!
    const parts = Array.from({ length: 1 + Math.floor(random.next() * 3) }, () => pick(WRAPS) + pick(plain) + pick(WRAPS))
    return parts.join("")
  })
}
