// Builds wheels by hand, because tests have no index of Python packages.

import { execFileSync } from "node:child_process"

/** A wheel is a zip file with the module and three files of metadata. */
const SCRIPT = `
import sys, zipfile
folder, name, version, source = sys.argv[1:]
info = f"{name}-{version}.dist-info"
files = {
    f"{name}.py": source,
    f"{info}/METADATA": f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n",
    f"{info}/WHEEL": "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
}
files[f"{info}/RECORD"] = "".join(f"{path},,\\n" for path in [*files, f"{info}/RECORD"])
with zipfile.ZipFile(f"{folder}/{name}-{version}-py3-none-any.whl", "w") as wheel:
    for path, text in files.items():
        wheel.writestr(path, text)
`

/** Creates a wheel that consists of one module. */
export const buildWheel = (
  folder: string,
  { name, version, source }: { name: string; version: string; source: string },
): void => {
  execFileSync("python3", ["-c", SCRIPT, folder, name, version, source])
}
