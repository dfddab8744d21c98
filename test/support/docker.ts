// A real Docker engine for the tests that need one (dockerd.sh). It has the image `ork-test`: busybox.

import { join } from "node:path"
import { install, startComponent } from "./component.ts"

export interface DockerEngine {
  /** For DOCKER_HOST. */
  host: string
  stop(): Promise<void>
}

export const IMAGE = "ork-test"

export const startDocker = async (): Promise<DockerEngine> => {
  await install(["dockerd", "docker", "busybox"], ["docker.io", "busybox-static"])
  const { folder, stop } = await startComponent("dockerd.sh")
  return { host: `unix://${join(folder, "sock")}`, stop }
}
