"""Reads an Airflow file from standard input without importing it, and prints its DAGs as JSON.

A value that is not a constant is printed as {"$source": text}. A result of another task is {"$task": id},
a dataset or an asset {"$dataset": address}.
"""

import ast
import json
import sys
import textwrap

MAX_LOOP = 1000
DAG_NAMES = {"DAG", "dag"}
DATASET_NAMES = {"Dataset", "Asset"}


def name_of(node):
    """Returns the last part of a dotted name: `BashOperator` of `bash.BashOperator`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def is_operator(name):
    return name.endswith(("Operator", "Sensor")) and name[:1].isupper()


class Dag:
    def __init__(self, dag_id, args, line):
        self.id, self.args, self.line = dag_id, args, line
        self.tasks, self.edges = [], []

    def unique(self, wanted):
        used = {task["id"] for task in self.tasks}
        name, n = wanted, 1
        while name in used:
            name, n = f"{wanted}_{n}", n + 1
        return name


class Reader:
    def __init__(self, text):
        self.text = text
        self.constants, self.variables, self.functions = {}, {}, {}
        self.shared, self.dags, self.problems = [], [], []
        self.dag, self.group = None, ""

    def problem(self, node, message):
        self.problems.append({"line": node.lineno, "message": message})

    # -- values ------------------------------------------------------------------------------------

    def value(self, node):
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, (str, int, float, bool, type(None))) else self.source(node)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return [self.value(item) for item in node.elts]
        if isinstance(node, ast.Dict) and all(key is not None for key in node.keys):
            return {str(self.value(key)): self.value(item) for key, item in zip(node.keys, node.values)}
        if isinstance(node, ast.Name) and node.id in self.constants:
            return self.constants[node.id]
        if isinstance(node, ast.JoinedStr):
            return self.formatted(node)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mult)):
            left, right = self.value(node.left), self.value(node.right)
            if isinstance(left, str) and isinstance(right, str) and isinstance(node.op, ast.Add):
                return left + right
            if all(type(side) in (int, float) for side in (left, right)):
                return left + right if isinstance(node.op, ast.Add) else left * right
        if isinstance(node, ast.Call):
            called = self.called(node)
            if called is not None:
                return called
        ids = self.tasks_in(node)
        if ids is not None and len(ids) == 1:
            reference = {"$task": ids[0]}
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
                reference["key"] = node.slice.value
            return reference
        return self.source(node)

    def source(self, node):
        return {"$source": ast.unparse(node)}

    def formatted(self, node):
        parts = []
        for part in node.values:
            value = part.value if isinstance(part, ast.Constant) else self.value(part.value)
            if isinstance(value, (dict, list)):
                return self.source(node)
            parts.append(str(value))
        return "".join(parts)

    def called(self, node):
        name = name_of(node.func)
        numbers = [self.value(arg) for arg in node.args]
        named = {key.arg: self.value(key.value) for key in node.keywords}
        if name == "timedelta" and not numbers:
            units = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1, "weeks": 604800}
            if set(named) <= set(units) and all(type(number) in (int, float) for number in named.values()):
                return {"$seconds": sum(units[unit] * number for unit, number in named.items())}
        if name in DATASET_NAMES and (numbers or "uri" in named):
            return {"$dataset": numbers[0] if numbers else named["uri"]}
        if name == "datetime" and len(numbers) >= 3 and all(type(number) is int for number in numbers):
            zone = named.get("tz") or named.get("tzinfo")
            return {"$date": "-".join(f"{number:02d}" for number in numbers[:3]), "zone": zone if isinstance(zone, str) else None}
        return None

    # -- statements --------------------------------------------------------------------------------

    def read(self):
        self.block(ast.parse(self.text).body)
        return {
            "dags": [{"id": d.id, "line": d.line, "args": d.args, "tasks": d.tasks, "edges": d.edges} for d in self.dags],
            "functions": {name: self.function_info(node) for name, node in self.functions.items()},
            "shared": "\n".join(self.shared),
            "problems": self.problems,
        }

    def block(self, body):
        for node in body:
            self.statement(node)

    def statement(self, node):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names]
            if not any(name.split(".")[0] in ("airflow", "__future__") for name in names):
                self.shared.append(self.segment(node))
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.function(node)
        elif isinstance(node, ast.With):
            self.with_block(node)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            self.assign(node.targets[0].id, node.value, node)
        elif isinstance(node, ast.Expr):
            if not isinstance(node.value, ast.Constant):
                self.effect(node.value)
        elif isinstance(node, ast.For) and isinstance(node.target, ast.Name) and self.dag is not None:
            self.loop(node)
        elif isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            pass
        elif isinstance(node, ast.Return) and self.dag is not None:
            pass
        elif self.dag is not None:
            self.problem(node, f"`{ast.unparse(node).splitlines()[0]}` is evaluated by Airflow when it loads the file")
        else:
            self.shared.append(self.segment(node))

    def segment(self, node):
        return textwrap.dedent(ast.get_source_segment(self.text, node, padded=True) or "")

    def assign(self, name, value, node):
        if isinstance(value, ast.Call) and name_of(value.func) == "DAG":
            self.variables[name] = self.open_dag(value)
            return
        ids = self.tasks_in(value)
        if ids is not None:
            self.variables[name] = ids
            return
        known = self.value(value)
        if not contains_source(known):
            self.constants[name] = known
        if self.dag is None:
            if not contains_source(known) and not (isinstance(known, dict) and "$dataset" in known):
                self.shared.append(self.segment(node))
        elif contains_source(known):
            self.problem(node, f"`{ast.unparse(node)}` is evaluated by Airflow when it loads the file")

    def loop(self, node):
        items = self.value(node.iter)
        if not isinstance(items, list) or contains_source(items) or len(items) > MAX_LOOP:
            self.problem(node, f"the loop over `{ast.unparse(node.iter)}` has no constant list")
            return
        for item in items:
            self.constants[node.target.id] = item
            self.block(node.body)
        self.constants.pop(node.target.id, None)

    def function(self, node):
        for decorator in node.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            name = name_of(call.func if call else decorator)
            if name == "dag":
                outer, self.dag = self.dag, self.open_dag(call, node)
                self.block(node.body)
                self.dag = outer
                return
            if ast.unparse(call.func if call else decorator).split(".")[0] == "task":
                args = {key.arg: self.value(key.value) for key in call.keywords} if call else {}
                self.variables[node.name] = ("function", node.name, name, args)
                self.functions[node.name] = node
                return
        self.functions[node.name] = node

    def function_info(self, node):
        bare = textwrap.dedent(ast.get_source_segment(self.text, node, padded=True) or "")
        names = [arg.arg for arg in node.args.posonlyargs + node.args.args]
        return {"source": bare, "line": node.lineno, "params": names, "context": node.args.kwarg is not None}

    def with_block(self, node):
        outer = (self.dag, self.group)
        for item in node.items:
            call = item.context_expr
            name = name_of(call.func) if isinstance(call, ast.Call) else ""
            if name == "DAG":
                self.dag = self.open_dag(call)
                if item.optional_vars is not None:
                    self.variables[name_of(item.optional_vars)] = self.dag
            elif name == "TaskGroup" and self.dag is not None:
                args = [self.value(arg) for arg in call.args]
                named = {key.arg: self.value(key.value) for key in call.keywords}
                own = args[0] if args else named.get("group_id", "group")
                self.group = f"{self.group}{own}_"
                if item.optional_vars is not None:
                    self.variables[name_of(item.optional_vars)] = ("group", self.dag, self.group)
            elif isinstance(call, ast.Name) and isinstance(self.variables.get(call.id), Dag):
                self.dag = self.variables[call.id]
            else:
                self.problem(node, f"`with {ast.unparse(call)}` is not converted")
        self.block(node.body)
        self.dag, self.group = outer

    def open_dag(self, call, function=None):
        args = {key.arg: self.value(key.value) for key in call.keywords if key.arg} if call else {}
        given = [self.value(arg) for arg in call.args] if call else []
        dag_id = given[0] if given else args.pop("dag_id", function.name if function else "dag")
        dag = Dag(str(dag_id), args, function.lineno if function else call.lineno)
        self.dags.append(dag)
        return dag

    # -- tasks and edges -----------------------------------------------------------------------------

    def effect(self, node):
        if self.tasks_in(node) is None and not (isinstance(node, ast.Call) and self.dag is None):
            self.problem(node, f"`{ast.unparse(node)}` is not converted")

    def tasks_in(self, node):
        """Returns the ids of the tasks that an expression stands for; creates those that it calls. None: it stands for none."""
        if isinstance(node, ast.Name):
            found = self.variables.get(node.id)
            if isinstance(found, tuple) and found[0] == "group":
                return ("group", found[2])
            return found if isinstance(found, list) else None
        if isinstance(node, (ast.List, ast.Tuple)):
            lists = [self.tasks_in(item) for item in node.elts]
            return None if not lists or any(each is None for each in lists) else [one for each in lists for one in self.ends(each)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.RShift, ast.LShift)):
            left, right = self.tasks_in(node.left), self.tasks_in(node.right)
            if left is None or right is None:
                return None
            self.connect(left, right) if isinstance(node.op, ast.RShift) else self.connect(right, left)
            return right
        if isinstance(node, ast.Attribute) and node.attr == "output":
            return self.tasks_in(node.value)
        if isinstance(node, ast.Subscript):
            return self.tasks_in(node.value)
        return self.call(node) if isinstance(node, ast.Call) else None

    def ends(self, ids, first=False):
        """Returns the last tasks of a group, or the first ones."""
        if not isinstance(ids, tuple):
            return ids
        inside = [task["id"] for task in self.dag.tasks if task["id"].startswith(ids[1])]
        side = 1 if first else 0
        return [one for one in inside if not any(edge[side] == one and edge[1 - side] in inside for edge in self.dag.edges)]

    def connect(self, above, below):
        for first in self.ends(above):
            for second in self.ends(below, first=True):
                if [first, second] not in self.dag.edges:
                    self.dag.edges.append([first, second])

    def call(self, node):
        if self.dag is None and not any(key.arg == "dag" for key in node.keywords):
            return None
        function, expand, partial = node.func, None, []
        if isinstance(function, ast.Attribute) and function.attr in ("expand", "expand_kwargs"):
            expand = {key.arg or "*": self.value(key.value) for key in node.keywords}
            inner = function.value
            if isinstance(inner, ast.Call) and name_of(inner.func) == "partial":
                partial, function = inner.keywords, inner.func.value
            else:
                function = inner
        elif isinstance(function, ast.Attribute) and function.attr in ("set_downstream", "set_upstream"):
            self_ids, others = self.tasks_in(function.value), self.tasks_in(node.args[0]) if node.args else None
            if self_ids is None or others is None:
                return None
            self.connect(self_ids, others) if function.attr == "set_downstream" else self.connect(others, self_ids)
            return self_ids
        name = name_of(function)
        if name == "chain":
            lists = [self.tasks_in(arg) for arg in node.args]
            if any(each is None for each in lists):
                return None
            for above, below in zip(lists, lists[1:]):
                self.connect(above, below)
            return lists[-1] if lists else None
        keywords = partial if expand is not None else node.keywords
        args = {key.arg: self.value(key.value) for key in keywords if key.arg}
        positional = [] if expand is not None else [self.value(arg) for arg in node.args]
        if is_operator(name):
            return self.add(str(args.pop("task_id", name)), name, args, expand, node)
        override = {}
        if isinstance(function, ast.Call) and name_of(function.func) == "override":
            override = {key.arg: self.value(key.value) for key in function.keywords}
            function = function.func.value
        known = self.variables.get(name_of(function))
        if not isinstance(known, tuple) or known[0] != "function":
            return None
        _, called, kind, settings = known
        settings = {**settings, **override}
        names = [arg.arg for arg in self.functions[called].args.args]
        inputs = {**dict(zip(names, positional)), **args}
        task_id = str(settings.pop("task_id", called))
        operator = "@task" if kind == "task" else f"@task.{kind}"
        return self.add(task_id, operator, {**settings, "$function": called, "$input": inputs}, expand, node)

    def add(self, task_id, operator, args, expand, node):
        dag = self.variables.get(args["dag"]["$source"], self.dag) if isinstance(args.get("dag"), dict) else self.dag
        args.pop("dag", None)
        if not isinstance(dag, Dag):
            return None
        outer, self.dag = self.dag, dag
        own = dag.unique(self.group + task_id)
        dag.tasks.append({"id": own, "operator": operator, "args": args, "expand": expand, "line": node.lineno})
        for above in sorted(references(args) | references(expand)):
            self.connect([above], [own])
        self.dag = outer
        return [own]


def contains_source(value):
    if isinstance(value, dict):
        return "$source" in value or any(contains_source(item) for item in value.values())
    return isinstance(value, list) and any(contains_source(item) for item in value)


def references(value):
    if isinstance(value, dict):
        if "$task" in value:
            return {value["$task"]}
        return set().union(*[references(item) for item in value.values()]) if value else set()
    return set().union(*[references(item) for item in value]) if isinstance(value, list) and value else set()


try:
    print(json.dumps(Reader(sys.stdin.read()).read()))
except SyntaxError as error:
    print(json.dumps({"dags": [], "functions": {}, "shared": "", "problems": [{"line": error.lineno or 1, "message": error.msg}]}))
