// Jobs of a program: creates, finds and lists them, and returns them as work.

import { taskNode } from "../../core/model/function-workflow.ts"
import { uuidv7 } from "../../core/model/ids.ts"
import { iso } from "../../core/model/ports.ts"
import type { JsonObject } from "../../core/values/json.ts"
import { DEFAULT_JOB_RETRY, isJobFinished, type JobStatus } from "../../core/rules/jobs/jobs.ts"
import { JOB_CANCELLED } from "../../core/rules/messages.ts"
import { UnhandledJobs } from "../../engine/services/unhandled-jobs.ts"
import type { JobRejection, JobRow, NewJob } from "../../store/contract/jobs.ts"
import type { JobInTransaction } from "../../store/contract/transactions.ts"
import type { AnyTask } from "../definitions.ts"
import { optionalMs } from "../duration.ts"
import type { CallingFunction } from "../durable/program-executor.ts"
import { asTransactionError } from "../durable/transactions.ts"
import { CancelledError, ConflictError, noJob, noJobYet, TaskFailedError } from "../errors.ts"
import { groupOf, jobLimitsOf } from "../job-limits.ts"
import { checkNames, RETRY_WORK } from "../option-names.ts"
import type { EnqueueOptions, JobState, ListOptions, Work } from "../orkable.ts"
import { toJson } from "../to-json.ts"
import { isInTransaction, type JobsInTransaction } from "./in-transaction.ts"
import { readOutput } from "./outcomes.ts"
import { throwPublicError } from "./public-errors.ts"
import type { WaitOptions } from "./results.ts"
import type { WorkContext } from "./work-context.ts"

const PAGE = 100

export class Jobs {
  readonly #context: WorkContext
  readonly #unhandled: UnhandledJobs
  readonly #tasks = new WeakMap<AnyTask, JsonObject>()

  constructor(context: WorkContext) {
    this.#context = context
    this.#unhandled = new UnhandledJobs(context.parts)
  }

  /** Returns a job as the store creates it. */
  newJob(definition: AnyTask, input: unknown, options: EnqueueOptions): NewJob {
    const { clock, random } = this.#context.parts
    const { name, queue, retry, timeoutMs, expiresMs } = definition
    const group = groupOf(definition, input)
    return {
      id: uuidv7(clock.now(), random.hex128()),
      name,
      queue,
      payload: toJson(input, `the input of ${name}`),
      priority: options.priority ?? definition.priority,
      dependencies: [],
      retryPolicy: DEFAULT_JOB_RETRY,
      retry,
      task: this.#fieldsOf(definition),
      concurrencyKey: null,
      concurrencyLimit: 1,
      limits: jobLimitsOf(definition, group),
      key: options.key ?? null,
      runAt: options.at === undefined ? null : iso(options.at.getTime()),
      delayMs: optionalMs(options.delay, "delay"),
      timeoutMs,
      expiresMs,
      group,
    }
  }

  /** Returns the executor fields of a task's jobs, which share one object. */
  #fieldsOf(definition: AnyTask): JsonObject {
    let task = this.#tasks.get(definition)
    if (task === undefined) {
      const { executor, function: functionName, paramsAsInput, timeoutMs, startTimeoutMs } = taskNode(definition)
      this.#tasks.set(
        definition,
        (task = { executor, function: functionName!, paramsAsInput: paramsAsInput!, timeoutMs, startTimeoutMs }),
      )
    }
    return task
  }

  async create(jobs: NewJob[], options: Pick<EnqueueOptions, "onConflict"> | JobsInTransaction): Promise<Work<unknown>[]> {
    const created = await (
      isInTransaction(options)
        ? this.#createInTransaction(jobs, options)
        : this.#context.createThenClaim("jobs", () => this.#context.parts.store.createJobs(jobs, options))
    ).catch(throwPublicError)
    if (!("rejected" in created)) {
      if (isInTransaction(options)) return created.map((job) => this.#toWork(job, { absent: noJobYet }))
      const maySkipFirstRead = this.#context.results.maySkipFirstRead()
      const runsHere = jobs[0] === undefined || this.#context.runsDefinition(jobs[0].name)
      if (!runsHere) await this.#unhandled.check(jobs)
      return created.map((job) =>
        this.#toWork(job, { maySkipFirstRead: runsHere && job.created ? maySkipFirstRead : undefined }),
      )
    }
    const taken = created.rejected === "key_exists" ? `the key is taken by job ${created.id}` : created.rejected
    throw new ConflictError(`no job of ${jobs[0]!.name} was created: ${taken}`)
  }

  async #createInTransaction(
    jobs: NewJob[],
    { tx, onConflict = "existing" }: JobsInTransaction,
  ): Promise<JobInTransaction[] | JobRejection> {
    const { store } = this.#context.parts
    // The type excludes it, but JavaScript callers can pass it.
    if ((onConflict as string) === "replace") throw new TypeError("onConflict: replace is not possible in a transaction (tx)")
    return await store.createJobsIn(tx, jobs, onConflict).catch(asTransactionError)
  }

  /** Starts a job as the child of a durable function, unless it exists. */
  async startChild(parent: CallingFunction, id: string, definition: AnyTask, input: unknown): Promise<void> {
    const { parts, createThenClaim } = this.#context
    const job = { ...this.newJob(definition, input, {}), id, callerRow: parent.row, callerStep: parent.step }
    const created = await createThenClaim("jobs", () => parts.store.createJobs([job]))
    if ("rejected" in created && created.rejected !== "exists") {
      throw new Error(`job ${id} was not created: ${created.rejected}`)
    }
  }

  async get(id: string): Promise<Work<unknown> | null> {
    const job = await this.#context.parts.store.getJob(id).catch(throwPublicError)
    return job === null ? null : this.#toWork({ ...job, created: false })
  }

  async *list(name: string, status: ListOptions["status"]): AsyncGenerator<Work<unknown>> {
    const statuses = status?.map((each) => each.toUpperCase() as JobStatus)
    const filter = { name, ...(statuses !== undefined && { status: statuses }) }
    let after: { createdAt: string; id: string } | null = null
    for (;;) {
      this.#context.checkOpen()
      const page: JobRow[] = await this.#context.parts.store
        .searchJobs({ filter, limit: PAGE, ...(after !== null && { after }) })
        .catch(throwPublicError)
      for (const job of page) yield this.#toWork({ ...job, created: false })
      if (page.length < PAGE) return
      after = page.at(-1)!
    }
  }

  /**
   * Returns a job as work. `maySkipFirstRead`: given for a job that this process runs and has just created. `absent`: returns the error
   * when there is no such job.
   */
  #toWork(
    job: JobInTransaction & Partial<Pick<JobRow, "progress">>,
    { maySkipFirstRead, absent = noJob }: Pick<WaitOptions, "maySkipFirstRead"> & { absent?: typeof noJob } = {},
  ): Work<unknown> {
    const { store } = this.#context.parts
    const find = async (): Promise<JobRow> => {
      this.#context.checkOpen()
      const found = await store.getJob(job.id)
      if (found === null) throw absent(job.id)
      return found
    }
    const check = (result: JobRow | JobRejection): void => {
      if ("rejected" in result) throw result.rejected === "not_found" ? absent(job.id) : rejectionError(job.id, result)
    }
    return {
      id: job.id,
      name: job.name,
      created: job.created,
      status: job.status.toLowerCase() as JobState,
      input: job.payload,
      attempts: job.attemptCount,
      error: job.error,
      progress: job.progress ?? null,
      result: (options) => this.#result(job, find, { ...options, maySkipFirstRead }).catch(throwPublicError),
      cancel: async () => {
        this.#context.checkOpen()
        const result = await store
          .cancelJob(job.id)
          .catch(throwPublicError)
          .finally(() => this.#context.engine?.wake())
        this.#context.results.recheck(job.id)
        check(result)
      },
      retry: async (options = {}) => {
        checkNames(options, RETRY_WORK, "retry")
        const { from } = options
        if (from !== undefined) throw new ConflictError(`job ${job.id} has no steps to retry from`)
        this.#context.checkOpen()
        const result = await store
          .retryJob(job.id)
          .catch(throwPublicError)
          .finally(() => this.#context.engine?.wake())
        check(result)
      },
      refresh: async () => this.#toWork({ ...(await find().catch(throwPublicError)), created: job.created }),
    }
  }

  async #result(job: Pick<JobRow, "id" | "name">, find: () => Promise<JobRow>, options: WaitOptions): Promise<unknown> {
    const ended = await this.#context.results.wait(
      job.id,
      async () => {
        const found = await find()
        return isJobFinished(found.status) ? found : null
      },
      options,
    )
    if ("result" in ended) return await readOutput(this.#context.parts.objects, ended.result.output)
    if (ended.status === "COMPLETED")
      return ended.output === null ? null : await readOutput(this.#context.parts.objects, ended.output)
    if (ended.error === JOB_CANCELLED) throw new CancelledError(`job ${job.id} of ${job.name} was cancelled`)
    throw new TaskFailedError(job.name, job.id, ended.error ?? "no reason is known")
  }
}

/** Returns the error for a cancel or retry that the state of the job does not allow. */
const rejectionError = (id: string, rejection: JobRejection): Error => {
  if (rejection.rejected === "terminal")
    return new ConflictError(`job ${id} has ended as ${rejection.status.toLowerCase()} and cannot be cancelled`)
  if (rejection.rejected === "not_failed")
    return new ConflictError(`job ${id} is ${rejection.status.toLowerCase()}; only a failed job can be retried`)
  return new ConflictError(`job ${id}: ${rejection.rejected}`)
}
