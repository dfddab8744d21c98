// Reads credentials for registries from the `auths` of Docker's config file, as `docker login` writes them without a credential
// helper.

import { readFile } from "node:fs/promises"
import { join } from "node:path"
import type { Environ } from "./address.ts"

const HUB = "https://index.docker.io/v1/"

/** Returns the registry of an image: `ghcr.io` for `ghcr.io/a/b`, Docker Hub for `a/b` and `b`. */
export const registryOf = (image: string): string => {
  const [first = "", ...rest] = image.split("/")
  return rest.length > 0 && (/[.:]/.test(first) || first === "localhost") ? first : HUB
}

/** Returns the credentials in the engine's format; null when there are none. */
export const registryAuth = async (image: string, env: Environ): Promise<string | null> => {
  const folder = env["DOCKER_CONFIG"] || join(env["HOME"] ?? "/", ".docker")
  const text = await readFile(join(folder, "config.json"), "utf8").catch(() => null)
  if (text === null) return null
  const registry = registryOf(image)
  try {
    const { auths = {} } = JSON.parse(text) as { auths?: { [registry: string]: { auth?: string } } }
    const auth = (auths[registry] ?? auths[`https://${registry}`])?.auth
    if (auth === undefined) return null
    const [username, ...password] = Buffer.from(auth, "base64").toString("utf8").split(":")
    return Buffer.from(JSON.stringify({ username, password: password.join(":"), serveraddress: registry })).toString(
      "base64url",
    )
  } catch {
    return null
  }
}
