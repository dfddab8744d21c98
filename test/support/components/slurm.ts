// A real Slurm of one node for tests (slurm.sh).

import { join } from "node:path"
import { freePort, startComponent } from "./component.ts"
import { installPackages } from "./packages.ts"

export interface SlurmCluster {
  /** The environment of its commands. */
  env: { SLURM_CONF: string; PATH: string; HOME: string }
  stop(): Promise<void>
}

export const startSlurm = async (): Promise<SlurmCluster> => {
  await installPackages(["sbatch", "slurmctld", "slurmd", "munged"], ["slurm-wlm", "munge"])
  const { folder, stop } = await startComponent("slurm.sh", [String(await freePort())])
  const { PATH = "/usr/bin:/bin:/usr/sbin:/sbin", HOME = "/" } = process.env
  return { env: { SLURM_CONF: join(folder, "slurm.conf"), PATH, HOME }, stop }
}
