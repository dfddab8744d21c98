// Keeps the Job and the pod of every attempt in one namespace up to date, by one watch of Jobs and one of pods.

import type { Clock } from "../../core/model/ports.ts"
import type { Cluster } from "./cluster.ts"
import { ListWatch, type WatchListener, type WatchLog } from "./list-watch.ts"
import { corePath, isOlder, type JobObject, jobsPath, LABELS, type PodObject, slim, type Watched } from "./shapes.ts"

export interface NamespaceParts {
  cluster: Cluster
  clock: Clock
  log: WatchLog
}

/** The methods by which a watch updates the cached state of an object. Each returns true when the state has changed. */
type Latest<T extends Watched> = Pick<LatestObject<T>, "update" | "remove" | "compareWithList">

/** The latest known version of one object. An object that is gone does not come back; another one of its name may. */
export class LatestObject<T extends Watched> {
  object: T | null = null
  /** The last version without a deletion timestamp. */
  beforeDeletion: T | null = null
  gone = false
  /** The object disappeared while it was not watched, so that its last version is not known. */
  vanished = false

  /** Records a version. Returns false when it is not newer than the known one. */
  update(object: T): boolean {
    const { object: known } = this
    if (known !== null) {
      const same = known.metadata.uid === object.metadata.uid
      if (same && (this.gone || known.metadata.resourceVersion === object.metadata.resourceVersion)) return false
      if (isOlder(object.metadata.resourceVersion, known.metadata.resourceVersion)) return false
    }
    this.#store(object)
    this.gone = false
    this.vanished = false
    return true
  }

  /** Records the deletion. `object`: the last version, null when it is not known. Returns false when nothing changed. */
  remove(object: T | null): boolean {
    if (this.object === null || this.gone) return false
    if (object !== null && object.metadata.uid !== this.object.metadata.uid) return false
    if (object !== null) this.#store(object)
    this.vanished = object === null
    this.gone = true
    return true
  }

  /** Records a list of all objects at a resource version. Returns true when this object is missing there. */
  compareWithList(uids: ReadonlySet<string>, version: string): boolean {
    const { object } = this
    if (object === null || uids.has(object.metadata.uid) || isOlder(version, object.metadata.resourceVersion)) return false
    return this.remove(null)
  }

  #store(object: T): void {
    const replaced = this.object?.metadata.uid !== object.metadata.uid
    this.object = slim(object)
    if (object.metadata.deletionTimestamp === undefined) this.beforeDeletion = this.object
    else if (replaced) this.beforeDeletion = null
  }
}

/** The latest known versions of all pods with the label of one attempt. */
class LatestPods {
  readonly #pods = new Map<string, LatestObject<PodObject>>()

  /** Returns the pods that the Job owns, in the order in which they were seen. Others may have copied their labels. */
  ownedBy(job: JobObject | null): LatestObject<PodObject>[] {
    const isOwned = ({ object }: LatestObject<PodObject>): boolean =>
      object?.metadata.ownerReferences?.some(({ uid }) => uid === job?.metadata.uid) === true
    return [...this.#pods.values()].filter(isOwned)
  }

  update(object: PodObject): boolean {
    const known = this.#pods.get(object.metadata.uid) ?? new LatestObject<PodObject>()
    this.#pods.set(object.metadata.uid, known)
    return known.update(object)
  }

  /** Records the deletion of one pod, or of all when `object` is null. */
  remove(object: PodObject | null): boolean {
    if (object !== null) return this.#pods.get(object.metadata.uid)?.remove(object) === true
    return this.#changeAll((pod) => pod.remove(null))
  }

  compareWithList(uids: ReadonlySet<string>, version: string): boolean {
    return this.#changeAll((pod) => pod.compareWithList(uids, version))
  }

  #changeAll(change: (pod: LatestObject<PodObject>) => boolean): boolean {
    return [...this.#pods.values()].map(change).includes(true)
  }
}

export class TrackedAttempt {
  readonly job = new LatestObject<JobObject>()
  readonly pods = new LatestPods()
  readonly onChange: () => void

  constructor(onChange: () => void) {
    this.onChange = onChange
  }
}

export class NamespaceWatch {
  readonly name: string
  readonly #attempts = new Map<string, TrackedAttempt>()
  readonly #jobs: ListWatch<JobObject>
  readonly #pods: ListWatch<PodObject>

  constructor(name: string, parts: NamespaceParts) {
    this.name = name
    this.#jobs = new ListWatch({ ...parts, path: jobsPath(name), listener: this.#listener(({ job }) => job) })
    this.#pods = new ListWatch({ ...parts, path: corePath(name, "pods"), listener: this.#listener(({ pods }) => pods) })
  }

  /** Resolves when the first lists have arrived. Rejects when the cluster denies them. */
  async ready(): Promise<void> {
    await Promise.all([this.#jobs.ready(), this.#pods.ready()])
  }

  /** Reason why there are no current lists; null when there are. */
  get problem(): string | null {
    return this.#jobs.problem ?? this.#pods.problem
  }

  /** Tracks the Job of an attempt. Called before the Job is created: earlier changes go unnoticed. */
  track(attemptId: string, onChange: () => void): TrackedAttempt {
    const attempt = new TrackedAttempt(onChange)
    this.#attempts.set(attemptId, attempt)
    return attempt
  }

  untrack(attemptId: string, attempt: TrackedAttempt): void {
    if (this.#attempts.get(attemptId) === attempt) this.#attempts.delete(attemptId)
  }

  isTracked(attemptId: string): boolean {
    return this.#attempts.has(attemptId)
  }

  stop(): void {
    this.#jobs.stop()
    this.#pods.stop()
  }

  #listener<T extends Watched>(part: (attempt: TrackedAttempt) => Latest<T>): WatchListener<T> {
    const apply = (object: T, change: (latest: Latest<T>) => boolean): void => {
      const attempt = this.#attempts.get(object.metadata.labels?.[LABELS.attempt] ?? "")
      if (attempt !== undefined && change(part(attempt))) attempt.onChange()
    }
    return {
      updated: (object) => apply(object, (latest) => latest.update(object)),
      deleted: (object) => apply(object, (latest) => latest.remove(object)),
      listed: (uids, version) => {
        for (const attempt of this.#attempts.values()) if (part(attempt).compareWithList(uids, version)) attempt.onChange()
      },
    }
  }
}
