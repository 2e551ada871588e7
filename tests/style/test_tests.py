"""What a test may not do: wait a fixed time, mock our own code, or be unable to fail."""

import ast
import re
from collections.abc import Iterator

from tests.style.sources import FunctionNode, Source, report, sources_of_tests

LOOPS = (ast.For, ast.AsyncFor, ast.While)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
CHECKING_NAME = re.compile(r"^_?(assert|check|expect|verify|must|raises|warns|refuse)|^run_state_machine_as_test$")


def test_tests_do_not_sleep_and_hope() -> None:
    faults = [
        f"{source.at(call)}: {ast.unparse(call)}"
        for source in sources_of_tests()
        for test in _tests(source)
        for call in _sleeps_outside_loops(test)
    ]
    assert not faults, report(
        faults, "Poll for the condition with a deadline; a fixed sleep is slow when it works and wrong when it doesn't:"
    )


def test_nothing_is_mocked() -> None:
    faults = [
        source.at(node)
        for source in sources_of_tests()
        for node in ast.walk(source.tree)
        if isinstance(node, (ast.Import, ast.ImportFrom)) and "mock" in ast.unparse(node).split()[1].split(".")
    ]
    assert not faults, report(
        faults, "Use the real thing, or a small fake at one of the four seams (Store, Wakeups, Clock, Telemetry):"
    )


def test_every_test_can_fail() -> None:
    faults = [
        f"{source.at(test)}: {test.name}"
        for source in sources_of_tests()
        for test in _tests(source)
        if not _checks_something(test)
    ]
    assert not faults, report(
        faults, "Assert something, or call a helper whose name says so (check_…, assert_…, expect_…):"
    )


def test_the_rules_see_what_they_forbid() -> None:
    bad, good, hopeless = (
        ast.parse(text).body[0]
        for text in (
            "def test_x():\n    time.sleep(1)\n    assert done()",
            "def test_x():\n    while not done():\n        time.sleep(0.01)\n    assert done()",
            "def test_x():\n    do()",
        )
    )
    assert isinstance(bad, ast.FunctionDef)
    assert isinstance(good, ast.FunctionDef)
    assert isinstance(hopeless, ast.FunctionDef)
    assert list(_sleeps_outside_loops(bad))
    assert not list(_sleeps_outside_loops(good))
    assert _checks_something(good)
    assert not _checks_something(hopeless)


def _tests(source: Source) -> Iterator[FunctionNode]:
    if source.path.name.startswith("test_"):
        yield from (function for function in source.functions() if function.name.startswith("test_"))


def _sleeps_outside_loops(node: ast.AST) -> Iterator[ast.Call]:
    """Sleeps straight in a test; in a loop they poll, in an inner function they are a body that a worker runs."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*LOOPS, *SCOPES)):
            continue
        if isinstance(child, ast.Call) and _name(child) == "sleep" and not _is_zero(child) and not _declares(child):
            yield child
        yield from _sleeps_outside_loops(child)


def _checks_something(test: FunctionNode) -> bool:
    return any(
        isinstance(node, ast.Assert) or (isinstance(node, ast.Call) and CHECKING_NAME.match(_name(node)) is not None)
        for node in ast.walk(test)
    )


def _name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _declares(call: ast.Call) -> bool:
    """Whether it declares a step that sleeps: that has an id first, where a time would stand."""
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, str)


def _is_zero(call: ast.Call) -> bool:
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0
