"""Decides which arguments a function gets, and converts models of pydantic: the same in a worker, in a script and in tests."""

import inspect
import json
import typing
from typing import Any, Callable, Dict, List, Tuple

from .context import Context
from .errors import Terminal

CONTEXT_NAMES = {"ctx", "context"}


def is_model(kind: Any) -> bool:
    """Returns True for a model of pydantic, version 2 or 1."""
    return isinstance(kind, type) and (hasattr(kind, "model_validate") or hasattr(kind, "parse_obj"))


def dump_model(value: Any) -> Any:
    """Converts a model to JSON values."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if hasattr(value, "parse_obj") and hasattr(value, "json"):
        return json.loads(value.json())
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def to_json(value: Any) -> str:
    """Returns the JSON of a value that may contain models."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"), default=dump_model)


def validate(value: Any, kind: Any) -> Any:
    """Returns the value as the model that the parameter is annotated with; unchanged without a model."""
    models = [one for one in (kind, *typing.get_args(kind)) if is_model(one)]
    if not models or (value is None and kind is not models[0]):
        return value
    model = models[0]
    try:
        return model.model_validate(value) if hasattr(model, "model_validate") else model.parse_obj(value)
    except ValueError as error:
        # The input of the next attempt is the same.
        raise Terminal(f"the input does not fit {model.__name__}: {error}") from None


def annotations_of(function: Callable[..., Any]) -> Dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except Exception:
        return getattr(function, "__annotations__", {})


class Signature:
    """Decides which arguments a function gets: the input, the context, and values of the input by name."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.positional: List[str] = []
        self.named: List[str] = []
        self.any_name = False
        self.kinds = annotations_of(function)
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            self.positional = ["input", "ctx"]
            return
        for parameter in parameters:
            self._add(parameter)

    def _add(self, parameter: inspect.Parameter) -> None:
        name, kind = parameter.name, parameter.kind
        if kind is parameter.VAR_KEYWORD:
            self.any_name = True
        elif kind is parameter.VAR_POSITIONAL:
            self.positional += ["input", "ctx"][len(self.positional) :]
        elif kind is not parameter.KEYWORD_ONLY and len(self.positional) < 2 and not self.named and self._is_positional(parameter):
            self.positional.append(name)
        else:
            self.named.append(name)

    def _is_positional(self, parameter: inspect.Parameter) -> bool:
        """Parameters with a default take values of the input by name, except for the input and the context themselves."""
        if parameter.default is parameter.empty:
            return True
        return parameter.name == "input" if not self.positional else parameter.name in CONTEXT_NAMES

    def bind(self, value: Any, context: Context) -> Tuple[List[Any], Dict[str, Any]]:
        kinds = [self.kinds.get(name) for name in self.positional[:1]]
        given = [validate(value, kind) for kind in kinds] + [context]
        values = value if isinstance(value, dict) else {}
        names = {**values} if self.any_name else {name: values[name] for name in self.named if name in values}
        named = {name: validate(one, self.kinds.get(name)) for name, one in names.items() if name not in self.positional}
        named.update({name: context for name in self.named if name in CONTEXT_NAMES})
        return given[: len(self.positional)], named


signatures: Dict[Any, Signature] = {}


def call(function: Callable[..., Any], value: Any, context: Context) -> Any:
    """Calls a function as Ork does, and waits for the result of an async one."""
    if function not in signatures:
        signatures[function] = Signature(function)
    arguments, named = signatures[function].bind(value, context)
    result = function(*arguments, **named)
    return run_async(result) if inspect.isawaitable(result) else result


def run_async(awaitable: Any) -> Any:
    # Loaded on first use, because workers start faster without it.
    import asyncio

    async def wait() -> Any:
        return await awaitable

    return asyncio.run(wait())
