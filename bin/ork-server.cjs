#!/usr/bin/env node
// The command of the package ork-server.
require("./preload.cjs")
import("../dist/main.js")
