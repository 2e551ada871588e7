"""What a part may touch: the engine's short list of imports, no coroutine in it, no secret or payload in a log line."""

import ast
import sys
from collections.abc import Iterator

from tests.style.sources import PACKAGES, ROOT, package_sources, report, sources

ENGINE = "daemon/stepd/engine"
ENGINE_PACKAGES = {"stepd", "stepd_protocol", "msgspec", "cel_expr_python", "jsonschema_rs"}
# The standard library's modules that only compute. A clock, randomness or I/O is handed in as a value.
ENGINE_STANDARD_LIBRARY = set(
    """
    __future__ abc base64 bisect calendar collections contextlib copy dataclasses datetime decimal email enum fractions
    functools hashlib heapq itertools json math numbers operator re string struct textwrap types typing unicodedata uuid
    """.split()
)
# Calls that look at the world from modules that else only compute.
IMPURE_CALLS = {"now", "utcnow", "today", "uuid1", "uuid4", "open", "input", "print", "getnode"}

LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
LOGGERS = {"log", "logger", "logging", "_log", "_logger"}
PROOFS_OF_IDENTITY = "authorization bearer claim_id credentials fence password secret secrets token".split()
CONTENT_OF_USERS = "body input output payload progress".split()
NEVER_LOGGED = {*PROOFS_OF_IDENTITY, *CONTENT_OF_USERS}


def test_the_engine_imports_only_what_computes() -> None:
    allowed = ENGINE_PACKAGES | ENGINE_STANDARD_LIBRARY
    faults = [
        f"{source.at(node)}: imports {name}"
        for source in package_sources()
        if source.is_under(ENGINE)
        for node, name in _imports(source.tree)
        if name.split(".")[0] not in allowed or (name.startswith("stepd.") and not name.startswith("stepd.engine"))
    ]
    assert not faults, report(
        faults, "The engine is pure: hand the value in, or move the code to the service or the store:"
    )


def test_the_engine_neither_waits_nor_looks_at_the_world() -> None:
    faults = [
        f"{source.at(node)}: {ast.unparse(node)[:60]!r}"
        for source in package_sources()
        if source.is_under(ENGINE)
        for node in ast.walk(source.tree)
        if isinstance(node, (ast.AsyncFunctionDef, ast.Await))
        or (isinstance(node, ast.Call) and _called(node) in IMPURE_CALLS)
    ]
    assert not faults, report(faults, "The engine is pure: times, ids and random numbers come in as arguments:")


def test_the_lists_name_real_modules() -> None:
    assert sys.stdlib_module_names >= ENGINE_STANDARD_LIBRARY
    assert (ROOT / ENGINE).is_dir()
    assert all((folder / "__init__.py").is_file() for folder in PACKAGES.values())


def test_no_secret_and_no_payload_is_logged() -> None:
    faults = [
        f"{source.at(call)}: {name}"
        for source in sources()
        if not source.is_under("tests")
        for call in ast.walk(source.tree)
        if isinstance(call, ast.Call) and _is_log_call(call)
        for name in _names_in_arguments(call)
        if name in NEVER_LOGGED
    ]
    assert not faults, report(
        faults, "Log ids, names and counts; secrets, fences and what users pass through never reach a log:"
    )


def test_a_logged_secret_is_seen() -> None:
    call = ast.parse("logger.info('x %s', request.secret)").body[0]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    assert _is_log_call(call.value)
    assert "secret" in set(_names_in_arguments(call.value))


def _imports(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node, f"{node.module or '.'}.{alias.name}") for alias in node.names)


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _is_log_call(call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in LOG_METHODS:
        return False
    owner = call.func.value
    name = owner.attr if isinstance(owner, ast.Attribute) else owner.id if isinstance(owner, ast.Name) else ""
    return name in LOGGERS


def _names_in_arguments(call: ast.Call) -> Iterator[str]:
    for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
        for node in ast.walk(argument):
            if isinstance(node, ast.Name):
                yield node.id
            elif isinstance(node, ast.Attribute):
                yield node.attr
