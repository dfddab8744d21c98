#!/usr/bin/env node
// The command of the package ork: runs the package ork-server if it is installed, in the current folder or beside this package.
const { createRequire } = require("node:module")
const { dirname, join } = require("node:path")

const findServer = () => {
  for (const from of [join(process.cwd(), "package.json"), __filename]) {
    try {
      return dirname(createRequire(from).resolve("ork-server/package.json"))
    } catch {
      // It is not installed there.
    }
  }
  return null
}

const server = findServer()
if (server === null) {
  process.stderr.write("ork: the command line is in the package ork-server; install it with: npm install ork-server\n")
  process.exit(1)
}
require(join(server, "bin/ork-server.cjs"))
