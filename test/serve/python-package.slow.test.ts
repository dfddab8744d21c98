// The Python package `ork`, built as a wheel and as a source distribution, and installed into a virtualenv.

import { execFile } from "node:child_process"
import { mkdirSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, it } from "vitest"
import { REPO, temporaryFolder } from "../support/ork.ts"
import { installVenv } from "../support/components/packages.ts"
import { startServer } from "../support/server.ts"

const run = promisify(execFile)
const OFFLINE = { PIP_NO_INDEX: "1", PIP_DISABLE_PIP_VERSION_CHECK: "1" }

it("a wheel and a source distribution can be built and installed", { timeout: 300_000 }, async () => {
  await installVenv()
  const folder = temporaryFolder()
  const dist = join(folder, "dist")
  mkdirSync(dist)
  const python = join(folder, "env/bin/python")
  const env = { PATH: process.env["PATH"], HOME: folder, PYTHONDONTWRITEBYTECODE: "1", ...OFFLINE }
  await run("python3", ["-m", "venv", join(folder, "env")])
  const build = "import build_backend, sys; build_backend.build_sdist(sys.argv[1])"
  await run(python, ["-c", build, dist], { cwd: join(REPO, "python"), env })
  await run(python, ["-m", "pip", "wheel", "--wheel-dir", dist, join(REPO, "python")], { env })
  expect(readdirSync(dist).toSorted()).toEqual(["ork-0.1.0-py3-none-any.whl", "ork-0.1.0.tar.gz"])
  await run(python, ["-m", "pip", "install", join(dist, "ork-0.1.0-py3-none-any.whl")], { env })
  const typed = "import ork, os; print(os.path.exists(os.path.join(os.path.dirname(ork.__file__), 'py.typed')), ork.__file__)"
  expect((await run(python, ["-c", typed], { cwd: folder, env })).stdout).toMatch(/^True .*site-packages/)
  const server = await startServer([], { cwd: temporaryFolder() })
  const tests = { ...env, ORK_URL: server.url, ORK_API_KEY: server.key }
  const { stderr } = await run(python, ["-m", "unittest", "discover", "-s", join(REPO, "python/tests")], {
    cwd: folder,
    env: tests,
  })
  expect(stderr).toMatch(/\nOK\n$/)
  await run(python, ["-m", "pip", "install", "--force-reinstall", join(dist, "ork-0.1.0.tar.gz")], { env })
  await run(python, ["-c", "import ork.client, ork.testing"], { cwd: folder, env })
})
