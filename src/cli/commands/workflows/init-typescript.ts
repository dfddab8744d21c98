// The files of `ork init --typescript`: a program with a task, a durable function and a graph, and a test of them.

const APP = `// The program. \`npm run dev\` runs it with the web UI, and again after each change.
import { createServer } from "node:http"
import { Ork } from "ork"
import { greetAll, welcome } from "./workflows.ts"

const ork = await Ork.open({
  database: process.env.DATABASE_URL ?? "sqlite:.ork/app.db",
  run: [welcome, greetAll],
})

const server = createServer(async (request, response) => {
  const name = new URL(request.url ?? "/", "http://localhost").searchParams.get("name") ?? "world"
  const run = await ork.enqueue(welcome, { name }, { key: \`welcome:\${name}\` })
  response.end(JSON.stringify({ id: run.id, created: run.created }) + "\\n")
})

server.listen(Number(process.env.PORT ?? 3000), () => console.log("ready: curl 'http://localhost:3000/?name=Ada'"))

const stop = (): void => {
  server.close()
  void ork.stop({ grace: "20s" })
}
process.once("SIGINT", stop)
process.once("SIGTERM", stop)
`

const WORKFLOWS = `// What the program does: tasks, durable functions and graphs.
import { graph, task, workflow } from "ork"
import { z } from "zod"

export const greet = task(
  "greet",
  { input: z.object({ name: z.string() }), retry: { attempts: 5, delay: "200ms" } },
  ({ name }, { log }) => {
    log(\`greeting \${name}\`)
    return { text: \`Hello, \${name}!\` }
  },
)

// Continues where it was after a crash or a deploy; the sleep uses no memory.
export const welcome = workflow("welcome", { input: z.object({ name: z.string() }) }, async ({ name }, step) => {
  const first = await step.call(greet, { name })
  await step.sleep("before the reminder", "3d")
  const second = await step.call(greet, { name: \`\${name} again\` })
  return [first.text, second.text]
})

// A graph: \`ork export workflows.ts\` prints it as YAML.
export const greetAll = graph("greet-all", { params: z.object({ names: z.array(z.string()) }) }, (g) =>
  g.each("greet", g.params.names, greet, (name) => ({ name })),
)
`

const TEST = `// The real engine in virtual time: three days pass at once.
import assert from "node:assert/strict"
import { test } from "node:test"
import { testOrk } from "ork/test"
import { greetAll, welcome } from "./workflows.ts"

test("welcome greets now and after three days", async (t) => {
  const ork = await testOrk({ run: [welcome, greetAll] })
  t.after(() => ork.stop())
  const run = await ork.enqueue(welcome, { name: "Ada" })
  await ork.advance("1h")
  await ork.crash()
  await ork.advance("3d")
  assert.deepEqual(await run.result(), ["Hello, Ada!", "Hello, Ada again!"])
})

test("greet-all greets everybody", async (t) => {
  const ork = await testOrk({ run: [greetAll] })
  t.after(() => ork.stop())
  const run = await ork.enqueue(greetAll, { names: ["Ada", "Grace"] })
  await ork.advance("1s")
  assert.deepEqual(await run.result(), [{ text: "Hello, Ada!" }, { text: "Hello, Grace!" }])
})
`

const TSCONFIG = {
  compilerOptions: {
    target: "es2024",
    lib: ["es2024", "esnext.disposable"],
    module: "nodenext",
    types: ["node"],
    strict: true,
    verbatimModuleSyntax: true,
    erasableSyntaxOnly: true,
    allowImportingTsExtensions: true,
    skipLibCheck: true,
    noEmit: true,
  },
}

const manifest = (version: string): object => ({
  private: true,
  type: "module",
  scripts: { dev: "ork dev app.ts", start: "node app.ts", test: "tsc && node --test", export: "ork export workflows.ts" },
  dependencies: { ork: `^${version}`, zod: "^4.2.0" },
  devDependencies: { "@types/node": "^24.0.0", "ork-server": `^${version}`, typescript: "^5.9.0 || ^7.0.0" },
  engines: { node: ">=22.18" },
})

const json = (value: object): string => `${JSON.stringify(value, null, 2)}\n`

/** Returns the files of the template by name. */
export const typescriptFiles = (version: string): { [name: string]: string } => ({
  "package.json": json(manifest(version)),
  "tsconfig.json": json(TSCONFIG),
  "app.ts": APP,
  "workflows.ts": WORKFLOWS,
  "workflows.test.ts": TEST,
  ".gitignore": ".ork/\nnode_modules/\n",
})
