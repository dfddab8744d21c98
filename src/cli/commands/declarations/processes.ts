// Declarations of the commands that start servers and workers, and list them.

import {
  collect,
  type Declare,
  jsonOption,
  withConcurrency,
  withExamples,
  withHandlers,
  withServer,
  withStore,
} from "./options.ts"
import type { ExecOptions } from "../exec.ts"
import type { ServeOptions } from "../serve.ts"
import type { WorkerOptions } from "../worker.ts"
import type { WorkersOptions } from "../workers.ts"

export const declareServe: Declare = ({ program, context, action }) => {
  const command = program
    .command("serve")
    .description("serve the API and the web UI, run schedules, and execute tasks and jobs")
    .option("--host <host>", "address to listen on (ORK_HOST; 127.0.0.1)")
    .option("--port <port>", "port to listen on, 0 for a free one (ORK_PORT; 4000)")
    .option("--dir <folder>", "deploy every definition of a folder, and deploy changed ones again")
    .option("--queue <names>", "claim work of these queues only, such as fast,slow")
    .option("--no-worker", "claim no work: leave it to other servers and workers")
  withExamples(
    withStore(withHandlers(withConcurrency(command))),
    "ork serve --dir workflows",
    "ORK_PORT=8000 ork serve --queue fast",
  ).action(action(async (options: ServeOptions) => (await import("../serve.ts")).serve(context, options)))
}

export const declareWorker: Declare = ({ program, context, action }) => {
  const command = withHandlers(
    program
      .command("worker")
      .description("run tasks on this machine for remote servers: claim them from queues, or listen for pushed tasks"),
  )
    .option(
      "--server <urls>",
      "servers, tried in turn: http://a:4000,http://b:4000 (ORK_URL; otherwise the server of this folder)",
    )
    .option("--api-key <key>", "API key with the scope worker (ORK_API_KEY; otherwise .ork/admin.key)")
    .option("--queue <names>", "queues to claim work from, such as fast,slow (default)")
    .option("--label <names>", "labels of this worker, such as gpu,eu; may be repeated", collect, [])
    .option("--capacity <n>", "concurrent tasks (4 per core, at least 16)")
    .option("--name <name>", "name of the worker and of its folder below .ork (the host name)")
    .option("--listen <port>", "claim no work: listen on ORK_HOST for tasks that servers with ORK_WORKERS push")
  withExamples(
    command,
    "ork worker --server http://ork:4000 --queue etl --label gpu --capacity 8",
    "ork worker --listen 8001",
  ).action(action(async (options: WorkerOptions) => (await import("../worker.ts")).worker(context, options)))
}

export const declareWorkers: Declare = ({ program, context, action }) => {
  const command = program.command("workers").description("list the processes that run tasks").addOption(jsonOption())
  withExamples(withServer(command), "ork workers").action(
    action(async (options: WorkersOptions) => (await import("../workers.ts")).workers(context, options)),
  )
}

export const declareExec: Declare = ({ program, context, action }) => {
  const command = program
    .command("exec")
    .description(
      "run one task from its spec in the object store; the entry point of containers; exits with the task's exit code",
    )
    .option("--spec <key>", "the spec: a key, or a full address such as s3://bucket/runs/…/spec.json (TASK_SPEC_PATH)")
    .option("--object-store <url>", "object store of the spec, the log and the output (ORK_OBJECT_STORE)")
  withExamples(command, "TASK_SPEC_PATH=runs/…/spec.json ORK_OBJECT_STORE=s3://bucket/ork ork exec").action(
    action(async (options: ExecOptions) => (await import("../exec.ts")).exec(context, options)),
  )
}
