// Runs before Ork, in any version of Node: refuses one that is too old, and hides the one warning that is of no use to a
// user, that node:sqlite is experimental.
const [major, minor] = process.versions.node.split(".").map(Number)
if (major < 22 || (major === 22 && minor < 13)) {
  process.stderr.write(`ork: needs Node 22.13 or newer, and ${process.execPath} is ${process.version}; install a newer one\n`)
  process.exit(1)
}

const emitWarning = process.emitWarning
process.emitWarning = (warning, ...rest) => {
  if (String(warning).startsWith("SQLite is an experimental feature")) return
  emitWarning.call(process, warning, ...rest)
}
