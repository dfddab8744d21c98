// A real Docker engine for tests (dockerd.sh), with the image `ork-test` (busybox).

import { join } from "node:path"
import { startComponent } from "./component.ts"
import { installPackages } from "./packages.ts"

export interface DockerDaemon {
  /** The value of DOCKER_HOST. */
  host: string
  stop(): Promise<void>
}

export const IMAGE = "ork-test"

export const startDocker = async (): Promise<DockerDaemon> => {
  await installPackages(["dockerd", "docker", "busybox"], ["docker.io", "busybox-static"])
  const { folder, stop } = await startComponent("dockerd.sh")
  return { host: `unix://${join(folder, "sock")}`, stop }
}
