// Loads the access to the cluster: kubeconfig files as kubectl reads them, or the service account of the pod that Ork runs in.
// The official client parses the files; this module adds the parts of the format that it ignores.

import { existsSync, readFileSync } from "node:fs"
import { homedir } from "node:os"
import { delimiter, dirname, isAbsolute, join } from "node:path"
import { KubeConfig, type User } from "@kubernetes/client-node"
import { parse } from "yaml"

const ACCOUNT_NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

export interface Settings {
  /** Path of the setting `kubeconfig`; empty when not set. */
  kubeconfig: string
  env: { [name: string]: string | undefined }
}

export interface Loaded {
  config: KubeConfig
  /** Namespace of the context or the pod; empty when there is none. */
  namespace: string
}

/** Throws when no cluster is configured. */
export const loadConfig = ({ kubeconfig, env }: Settings): Loaded => {
  const home = join(env["HOME"] || homedir(), ".kube", "config")
  const paths = kubeconfig || env["KUBECONFIG"] || (existsSync(home) ? home : "")
  const files = paths.split(delimiter).filter((file) => file !== "")
  if (files.length > 0) {
    const config = mergeFiles(files)
    return { config, namespace: config.getContextObject(config.getCurrentContext())?.namespace ?? "" }
  }
  if (env["KUBERNETES_SERVICE_HOST"] === undefined) {
    throw new Error("no cluster is configured: set KUBECONFIG or the setting kubeconfig, or run Ork in the cluster")
  }
  const config = new KubeConfig()
  config.loadFromCluster()
  return { config, namespace: existsSync(ACCOUNT_NAMESPACE) ? readFileSync(ACCOUNT_NAMESPACE, "utf8").trim() : "" }
}

/** Merges several files: the first one that defines a name wins, and missing files are skipped. */
const mergeFiles = (files: string[]): KubeConfig => {
  const existing = files.length === 1 ? files : files.filter((file) => existsSync(file))
  const [first, ...others] = (existing.length === 0 ? files : existing).map(loadFile)
  for (const other of others) {
    const additions = <T extends { name: string }>(defined: T[], all: T[]): T[] =>
      all.filter(({ name }) => !defined.some((one) => one.name === name))
    other.clusters = additions(first!.clusters, other.clusters)
    other.users = additions(first!.users, other.users)
    other.contexts = additions(first!.contexts, other.contexts)
    first!.mergeConfig(other, Boolean(first!.currentContext))
  }
  return first!
}

interface RawUser {
  name: string
  user?: { tokenFile?: string } | null
}

const loadFile = (file: string): KubeConfig => {
  const config = new KubeConfig()
  config.loadFromFile(file)
  const { users } = (parse(readFileSync(file, "utf8")) ?? {}) as { users?: RawUser[] | null }
  const folder = dirname(file)
  config.users = config.users.map((user): User => {
    const tokenFile = users?.find(({ name }) => name === user.name)?.user?.tokenFile
    if (tokenFile !== undefined) return withTokenFile(user, inFolder(folder, tokenFile))
    return user.exec === undefined || user.exec === null ? user : { ...user, exec: pluginOf(user.exec as Plugin, folder) }
  })
  return config
}

const inFolder = (folder: string, path: string): string => (isAbsolute(path) ? path : join(folder, path))

/** Adds a token file, which the client reads again regularly and prefers to a token in the kubeconfig. */
const withTokenFile = (user: User, tokenFile: string): User => {
  const authProvider = { name: "tokenFile", config: { tokenFile } }
  return { ...user, token: "", authProvider }
}

interface Plugin {
  apiVersion?: string
  command: string
  env?: { name: string; value: string }[] | null
}

/** Adds KUBERNETES_EXEC_INFO, and resolves a command with a slash against the folder of the kubeconfig. */
const pluginOf = (plugin: Plugin, folder: string): Plugin => {
  const { apiVersion = "client.authentication.k8s.io/v1", command, env } = plugin
  const value = JSON.stringify({ apiVersion, kind: "ExecCredential", spec: { interactive: false } })
  return {
    ...plugin,
    command: command.includes("/") ? inFolder(folder, command) : command,
    env: [{ name: "KUBERNETES_EXEC_INFO", value }, ...(env ?? [])],
  }
}
