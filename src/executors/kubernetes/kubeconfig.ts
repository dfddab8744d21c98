// How the cluster is reached: kubeconfig files as kubectl reads them, or the pod that Ork runs in. The official client does the reading; what
// it leaves out of the format is added here.

import { existsSync, readFileSync } from "node:fs"
import { homedir } from "node:os"
import { delimiter, dirname, isAbsolute, join } from "node:path"
import { KubeConfig, type User } from "@kubernetes/client-node"
import { parse } from "yaml"

const ACCOUNT_NAMESPACE = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

export interface Settings {
  /** Empty: not said. */
  kubeconfig: string
  env: { [name: string]: string | undefined }
}

export interface Loaded {
  config: KubeConfig
  /** Of the context, or of the pod; empty: it names none. */
  namespace: string
}

/** Throws when there is no cluster to speak to. */
export const loadConfig = ({ kubeconfig, env }: Settings): Loaded => {
  const home = join(env["HOME"] || homedir(), ".kube", "config")
  const said = kubeconfig || env["KUBECONFIG"] || (existsSync(home) ? home : "")
  const files = said.split(delimiter).filter((file) => file !== "")
  if (files.length > 0) {
    const config = merged(files)
    return { config, namespace: config.getContextObject(config.getCurrentContext())?.namespace ?? "" }
  }
  if (env["KUBERNETES_SERVICE_HOST"] === undefined) {
    throw new Error("no cluster is known: set KUBECONFIG or the setting kubeconfig, or run Ork in the cluster")
  }
  const config = new KubeConfig()
  config.loadFromCluster()
  return { config, namespace: existsSync(ACCOUNT_NAMESPACE) ? readFileSync(ACCOUNT_NAMESPACE, "utf8").trim() : "" }
}

/** Of several files the first that names a thing wins, and those that are not there do not count. */
const merged = (files: string[]): KubeConfig => {
  const there = files.length === 1 ? files : files.filter((file) => existsSync(file))
  const [first, ...others] = (there.length === 0 ? files : there).map(loadFile)
  for (const other of others) {
    const news = <T extends { name: string }>(known: T[], all: T[]): T[] =>
      all.filter(({ name }) => !known.some((one) => one.name === name))
    other.clusters = news(first!.clusters, other.clusters)
    other.users = news(first!.users, other.users)
    other.contexts = news(first!.contexts, other.contexts)
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

/** It is read again from time to time, and counts more than a token beside it. */
const withTokenFile = (user: User, tokenFile: string): User => {
  const authProvider = { name: "tokenFile", config: { tokenFile } }
  return { ...user, token: "", authProvider }
}

interface Plugin {
  apiVersion?: string
  command: string
  env?: { name: string; value: string }[] | null
}

/** A plugin may ask what is wanted of it; a command with a slash is meant from the file's folder. */
const pluginOf = (plugin: Plugin, folder: string): Plugin => {
  const { apiVersion = "client.authentication.k8s.io/v1", command, env } = plugin
  const value = JSON.stringify({ apiVersion, kind: "ExecCredential", spec: { interactive: false } })
  return {
    ...plugin,
    command: command.includes("/") ? inFolder(folder, command) : command,
    env: [{ name: "KUBERNETES_EXEC_INFO", value }, ...(env ?? [])],
  }
}
