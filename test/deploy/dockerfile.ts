// Parses a Dockerfile into stages of instructions: joins continued lines and parses exec forms.

export interface Instruction {
  name: string
  /** The text after the flags. */
  rest: string
  flags: { [flag: string]: string }
  /** The words of the exec form; undefined: another form. */
  words: string[] | null
}

export interface Stage {
  image: string
  alias: string | null
  instructions: Instruction[]
}

const KNOWN = new Set(
  "FROM RUN CMD LABEL EXPOSE ENV ADD COPY ENTRYPOINT VOLUME USER WORKDIR ARG ONBUILD STOPSIGNAL HEALTHCHECK SHELL".split(" "),
)

export const parseDockerfile = (text: string): Stage[] => {
  const lines = text.split("\n").filter((line) => !/^\s*#/.test(line))
  const joined = lines
    .join("\n")
    .replaceAll(/\\\n\s*/g, "")
    .split("\n")
  const stages: Stage[] = []
  /** Arguments before the first stage, by name: what images may be. */
  const args = new Map<string, string>()
  for (const line of joined.map((one) => one.trim()).filter((one) => one !== "")) {
    const instruction = parseInstruction(line)
    if (instruction.name === "FROM") {
      const [image, as, alias] = instruction.rest.split(/\s+/)
      const resolved = image!.replaceAll(/\$\{(\w+)\}/g, (_, name: string) => args.get(name) ?? "")
      stages.push({ image: resolved, alias: as?.toUpperCase() === "AS" ? alias! : null, instructions: [] })
    } else if (stages.length === 0 && instruction.name === "ARG") {
      const [name, value] = instruction.rest.split("=")
      args.set(name!, value ?? "")
    } else {
      stages.at(-1)!.instructions.push(instruction)
    }
  }
  return stages
}

const parseInstruction = (line: string): Instruction => {
  const match = /^([A-Za-z]+)\s+(.*)$/.exec(line)
  const name = match?.[1]?.toUpperCase() ?? ""
  if (match === null || !KNOWN.has(name)) throw new Error(`no instruction of a Dockerfile: ${line}`)
  const flags: Instruction["flags"] = {}
  const rest = match[2]!.replaceAll(/(?:^|(?<=\s))--([a-z-]+)=(\S+)\s+/g, (whole, flag: string, value: string, at: number) => {
    if (at > 0 && !match[2]!.slice(0, at).startsWith("--")) return whole
    flags[flag] = value
    return ""
  })
  const exec = name === "HEALTHCHECK" ? rest.replace(/^CMD\s+/, "") : rest
  return { name, rest, flags, words: exec.startsWith("[") ? (JSON.parse(exec) as string[]) : null }
}
