// Patterns of files below a folder: in a name, `*` stands for any text, `?` for one character, `[abc]` and `[a-z]` for one of several and
// `[!a]` for any other; `**` stands for any number of folders, and `{a,b}` for both texts. Matching takes time proportional to pattern
// times name.

const MAX_ALTERNATIVES = 100

/** Returns the patterns without `{a,b}` that a pattern stands for. Throws an error if there are more than 100. */
export const expandBraces = (glob: string): string[] => {
  const expanded: string[] = []
  const pending = [glob]
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const braces = [...next.matchAll(/\{([^{}]*)\}/g)].find(([, inner]) => inner!.includes(","))
    if (braces === undefined) {
      expanded.push(next)
      continue
    }
    const texts = braces[1]!.split(",")
    if (expanded.length + pending.length + texts.length > MAX_ALTERNATIVES) {
      throw new Error(`the pattern stands for more than ${MAX_ALTERNATIVES} others; use fewer braces`)
    }
    const [before, after] = [next.slice(0, braces.index), next.slice(braces.index + braces[0].length)]
    pending.push(...texts.map((text) => before + text + after))
  }
  return [...new Set(expanded)]
}

/** Returns the test of names for a part of a pattern. Names that begin with a dot fit only parts that begin with a dot. */
export const fitsGlob = (part: string): ((name: string) => boolean) => {
  const tokens = tokensOf([...part])
  const acceptsDot = part.startsWith(".")
  return (name) => (acceptsDot || !name.startsWith(".")) && fitsTokens(tokens, [...name])
}

/** Tells a pattern from a plain name. */
export const isGlob = (part: string): boolean => /[*?[]/.test(part)

/** Accepts one character; null: accepts any text. */
type Token = ((char: string) => boolean) | null

const tokensOf = (chars: readonly string[]): Token[] => {
  const tokens: Token[] = []
  for (let i = 0; i < chars.length; i++) {
    const char = chars[i]!
    const end = char === "[" ? endOfClass(chars, i) : -1
    if (end !== -1) {
      tokens.push(classToken(chars.slice(i + 1, end)))
      i = end
    } else if (char === "*") {
      if (tokens.at(-1) !== null || tokens.length === 0) tokens.push(null)
    } else tokens.push(char === "?" ? () => true : (each) => each === char)
  }
  return tokens
}

/** Returns the index of the bracket that ends a class; -1 if there is none. A bracket at the beginning is one of the characters. */
const endOfClass = (chars: readonly string[], begin: number): number => {
  const first = chars[begin + 1] === "!" ? begin + 2 : begin + 1
  return chars.indexOf("]", first + 1)
}

const classToken = (chars: readonly string[]): Token => {
  const isNegated = chars[0] === "!"
  const ranges: [string, string][] = []
  for (let i = isNegated ? 1 : 0; i < chars.length; i++) {
    const isRange = chars[i + 1] === "-" && i + 2 < chars.length
    ranges.push([chars[i]!, chars[isRange ? i + 2 : i]!])
    if (isRange) i += 2
  }
  return (char) => ranges.some(([from, to]) => from <= char && char <= to) !== isNegated
}

/** Goes back only to the latest `*`: what fits before it stays as it is. */
const fitsTokens = (tokens: readonly Token[], name: readonly string[]): boolean => {
  let [at, token, star, starEnd] = [0, 0, -1, 0]
  while (at < name.length) {
    const accepts = tokens[token]
    if (accepts === null) {
      star = token++
      starEnd = at
    } else if (accepts?.(name[at]!) === true) {
      at++
      token++
    } else if (star === -1) return false
    else {
      at = ++starEnd
      token = star + 1
    }
  }
  while (tokens[token] === null) token++
  return token === tokens.length
}
