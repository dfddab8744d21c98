// Where the container engine listens: DOCKER_HOST as Docker's and Podman's own tools read it, else the first usual socket that is there.

import { readFileSync } from "node:fs"
import { join } from "node:path"

export interface EngineAddress {
  /** For messages. */
  shown: string
  socketPath?: string
  host?: string
  port?: number
  /** Set: speak TLS with these. */
  tls?: { ca: Buffer; cert: Buffer; key: Buffer }
}

export type Environ = { [name: string]: string | undefined }

const DEFAULT_SOCKET = "/var/run/docker.sock"
const PLAIN_PORT = 2375

const usualSockets = (env: Environ): string[] => [
  DEFAULT_SOCKET,
  ...(env["XDG_RUNTIME_DIR"] ? [join(env["XDG_RUNTIME_DIR"], "podman/podman.sock")] : []),
  "/run/podman/podman.sock",
]

/** Throws with what is wrong with DOCKER_HOST. */
export const engineAddress = (env: Environ, exists: (path: string) => boolean): EngineAddress => {
  const given = env["DOCKER_HOST"]
  if (!given) {
    const socketPath = usualSockets(env).find(exists) ?? DEFAULT_SOCKET
    return { shown: `unix://${socketPath}`, socketPath }
  }
  if (given.startsWith("unix://")) return { shown: given, socketPath: given.slice("unix://".length) }
  const url = /^(?:tcp|https?):\/\//.test(given) ? URL.parse(given.replace(/^tcp:/, "http:")) : null
  if (url === null || url.hostname === "") {
    throw new Error(`DOCKER_HOST ${given} is not understood: give unix:///path/to/socket or tcp://host:port`)
  }
  const secure = given.startsWith("https:") || Boolean(env["DOCKER_TLS_VERIFY"])
  const port = url.port === "" ? (secure ? PLAIN_PORT + 1 : PLAIN_PORT) : Number(url.port)
  const host = url.hostname.replace(/^\[|\]$/g, "")
  return { shown: given, host, port, ...(secure && { tls: certificates(env) }) }
}

const certificates = (env: Environ): NonNullable<EngineAddress["tls"]> => {
  const folder = env["DOCKER_CERT_PATH"] || join(env["HOME"] ?? "/", ".docker")
  const read = (name: string): Buffer => {
    try {
      return readFileSync(join(folder, name))
    } catch (error) {
      throw new Error(`the engine at DOCKER_HOST wants TLS, but ${join(folder, name)} cannot be read; set DOCKER_CERT_PATH`, {
        cause: error,
      })
    }
  }
  return { ca: read("ca.pem"), cert: read("cert.pem"), key: read("key.pem") }
}
