// An evaluator that loads the library of expressions on first use: most programs that contain an engine or a worker have no expressions.

import type { Evaluator } from "../ports.ts"

export const lazyEvaluator = (): Evaluator => {
  let loading: Promise<Evaluator> | null = null
  const load = (): Promise<Evaluator> => (loading ??= import("./evaluator.ts").then(({ createEvaluator }) => createEvaluator()))
  return {
    evaluate: async (source, scope) => await (await load()).evaluate(source, scope),
    render: async (template, scope) => ("lit" in template ? template.lit : await (await load()).render(template, scope)),
    check: async (schema, text) => await (await load()).check(schema, text),
    stop: async () => await (await loading)?.stop(),
  }
}
