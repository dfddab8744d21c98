import type { JsonObject } from "../../core/values/json.ts"

/** Params of workflow files, by the path that a program gives to `yaml`. `ork types` writes a module that adds the files of a project. */
export interface YamlWorkflows {
  "": { params: JsonObject }
}
