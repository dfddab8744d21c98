// The oldest Node that Ork runs on. `engines` in package.json says the same, but npm only warns about it.

const OLDEST = [22, 13] as const

/** Throws in a Node that is too old. Bun and Deno report the version of Node that they resemble, which says little. */
export const checkNodeVersion = ({ node, bun, deno }: NodeJS.ProcessVersions): void => {
  if (bun !== undefined || deno !== undefined) return
  const [major = 0, minor = 0] = node.split(".").map(Number)
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return
  throw new Error(`Ork needs Node ${OLDEST.join(".")} or newer, and this program runs on Node ${node}: install a newer one`)
}
