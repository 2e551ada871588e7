"""How a module looks: it says what it owns, stays short, keeps its functions short and explains its exceptions."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from tests.style.sources import FunctionNode, Source, package_sources, report, sources, sources_of_tests

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60

# A suppression names its rule and, after a dash or a second hash, says why.
SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore|pragma:|ruff:\s*noqa|mypy:)")
EXPLAINED = re.compile(
    r"#\s*(noqa:\s*[A-Z0-9, ]*[A-Z0-9]|type:\s*ignore\[[^\]]+\]|(pragma|ruff|mypy):[^#—]*?)\s*(#|—|- |\()\s*\w"
)


def test_there_is_something_to_check() -> None:
    assert {source.path.name for source in package_sources()} >= {"__init__.py"}
    assert any(source.path.name == "test_modules.py" for source in sources_of_tests())


def test_a_module_opens_with_one_sentence_that_says_what_it_owns() -> None:
    faults = [str(source.path) for source in sources() if not _opens_with_sentence(source)]
    assert not faults, report(
        faults, "Open the file with a docstring whose first paragraph is a sentence and ends with a full stop:"
    )


def test_modules_are_short() -> None:
    lengths = {source.path: source.text.count("\n") for source in sources()}
    faults = [f"{path}: {lines} lines" for path, lines in lengths.items() if lines > MODULE_LINES_MAX]
    assert not faults, report(faults, f"Split what has two owners; a module has at most {MODULE_LINES_MAX} lines:")


def test_functions_are_short() -> None:
    faults = [
        f"{source.at(function)}: {function.name} has {_length(function)} lines"
        for source in sources()
        for function in source.functions()
        if _length(function) > FUNCTION_LINES_MAX
    ]
    assert not faults, report(faults, f"A function has at most {FUNCTION_LINES_MAX} lines, its docstring not counted:")


def test_suppressions_say_why() -> None:
    faults = [
        f"{source.path}:{line}: {comment}"
        for source in sources()
        for line, comment in _comments(source)
        if SUPPRESSION.search(comment) and not EXPLAINED.search(comment)
    ]
    assert not faults, report(
        faults, "Name the rule and the reason: `# noqa: B008 — typer reads its options from defaults`:"
    )


def test_a_suppression_without_a_reason_is_seen() -> None:
    for comment in ("# noqa", "# noqa: E501", "# type: ignore[misc]", "# pragma: no cover"):
        assert SUPPRESSION.search(comment)
        assert not EXPLAINED.search(comment)
        assert EXPLAINED.search(comment + " — a reason") or comment == "# noqa"


def _opens_with_sentence(source: Source) -> bool:
    if not source.tree.body:  # an empty __init__.py owns nothing
        return True
    docstring = ast.get_docstring(source.tree)
    return docstring is not None and docstring.split("\n\n")[0].rstrip().endswith((".", ":"))


def _length(function: FunctionNode) -> int:
    assert function.end_lineno is not None
    lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None and first.end_lineno is not None:
        lines -= first.end_lineno - first.lineno + 1
    return lines


def _comments(source: Source) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
