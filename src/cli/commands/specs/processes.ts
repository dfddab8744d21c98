// Commands that start servers and workers, and list them.

import { Argument } from "commander"
import {
  type CommandSpec,
  CONCURRENCY_OPTION,
  HANDLERS_OPTION,
  JSON_OPTION,
  SERVER_OPTIONS,
  STORE_OPTIONS,
} from "./command-spec.ts"

export const PROCESS_COMMANDS: readonly CommandSpec[] = [
  {
    usage: "serve",
    description: "serve the API and the web UI, run schedules, and execute tasks and jobs",
    options: [
      ["--host <host>", "address to listen on (ORK_HOST; 127.0.0.1)"],
      ["--port <port>", "port to listen on, 0 for a free one (ORK_PORT; 4000)"],
      ["--tls-cert <file>", "TLS certificate with its chain, in PEM (ORK_TLS_CERT)"],
      ["--tls-key <file>", "private key of the certificate, in PEM (ORK_TLS_KEY)"],
      ["--insecure-http", "listen without TLS on an address that other machines reach (ORK_INSECURE_HTTP)"],
      ["--dir <folder>", "deploy every definition of a folder, and deploy changed ones again"],
      ["--queue <names>", "claim work of these queues only, such as fast,slow"],
      ["--label <names>", "labels of this server, such as gpu,eu; may be repeated", "repeated"],
      ["--no-worker", "claim no work: leave it to other servers and workers"],
      CONCURRENCY_OPTION,
      HANDLERS_OPTION,
      ...STORE_OPTIONS,
    ],
    examples: ["ork serve --dir workflows", "ORK_PORT=8000 ork serve --queue fast"],
    load: async () => (await import("../processes/serve.ts")).serve,
  },
  {
    usage: "mcp",
    description:
      "serve the Model Context Protocol on the standard streams: list, show, explain, logs, trigger and retry, as far as the key allows",
    options: [...SERVER_OPTIONS],
    examples: ["ORK_URL=https://ork.example.com ORK_API_KEY=… ork mcp"],
    load: async () => (await import("../processes/mcp.ts")).mcp,
  },
  {
    usage: "dev <file> [args...]",
    description: "run a program that opens Ork, again after each change, and serve the API and the web UI on its database",
    options: [
      ["--host <host>", "address to listen on (ORK_HOST; 127.0.0.1)"],
      ["--port <port>", "port to listen on, 0 for a free one (ORK_PORT; 4000)"],
    ],
    examples: ["ork dev app.ts"],
    load: async () => (await import("../processes/dev.ts")).dev,
  },
  {
    usage: "worker",
    description: "run tasks on this machine for remote servers: claim them from queues, or listen for pushed tasks",
    options: [
      HANDLERS_OPTION,
      ["--server <urls>", "servers, tried in turn: http://a:4000,http://b:4000 (ORK_URL; otherwise the server of this folder)"],
      ["--api-key <key>", "API key with the scope worker (ORK_API_KEY; otherwise .ork/admin.key)"],
      ["--queue <names>", "queues to claim work from, such as fast,slow (default)"],
      ["--label <names>", "labels of this worker, such as gpu,eu; may be repeated", "repeated"],
      ["--capacity <n>", "concurrent tasks (4 per core, at least 16)"],
      ["--name <name>", "name of the worker and of its folder below .ork (the host name)"],
      ["--listen <port>", "claim no work: listen on ORK_HOST for tasks that servers with ORK_WORKERS push"],
    ],
    examples: ["ork worker --server http://ork:4000 --queue etl --label gpu --capacity 8", "ork worker --listen 8001"],
    load: async () => (await import("../processes/worker.ts")).worker,
  },
  {
    usage: "open",
    argument: new Argument("[target]", "a workflow or a run to show"),
    description: "open the web UI in a browser and sign it in",
    options: [["--print", "print the link, which signs a browser in once within an hour"], JSON_OPTION, ...SERVER_OPTIONS],
    examples: ["ork open", "ork open etl"],
    load: async () => (await import("../processes/open.ts")).open,
  },
  {
    usage: "workers",
    description: "list the processes that run tasks",
    options: [JSON_OPTION, ...SERVER_OPTIONS],
    examples: ["ork workers"],
    load: async () => (await import("../processes/workers.ts")).workers,
  },
  {
    usage: "exec",
    description:
      "run one task from its spec in the object store, or call a function; the entry point of containers; exits with the task's exit code",
    options: [
      ["--file <file>", "call a function of this file with $ORK_INPUT, and write its result to $ORK_OUTPUT"],
      ["--function <name>", "name of the function (main in Python, the default export in TypeScript)"],
      ["--spec <key>", "the spec: a key, or a full address such as s3://bucket/runs/…/spec.json (TASK_SPEC_PATH)"],
      ["--object-store <url>", "object store of the spec, the log and the output (ORK_OBJECT_STORE)"],
    ],
    examples: ["TASK_SPEC_PATH=runs/…/spec.json ORK_OBJECT_STORE=s3://bucket/ork ork exec"],
    load: async () => (await import("../processes/exec.ts")).exec,
  },
]
