"""What CEL allows and this project doesn't, because it could hold the daemon or differ from run to run."""

from collections.abc import Iterator
from re import DOTALL
from re import compile as pattern

from stepd.engine.cel_syntax import Call, Fold, Literal, MapOf, Node, children

PATTERN_LENGTH_MAX = 256
PATTERN_ATOMS_MAX = 1_000

_UNICODE_CLASS_ATOMS = 200
"""What compiling one class like `\\pL` costs, in plain characters."""

_TIME_PARTS = frozenset(
    {
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getFullYear",
        "getHours",
        "getMilliseconds",
        "getMinutes",
        "getMonth",
        "getSeconds",
    }
)
_TOKEN = pattern(
    r"\\[pP](?:\{\^?\w+\}|\w)|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
    r"|\(\?[a-zA-Z-]*:|\(\?P?<\w+>|\{\d+(?:,\d*)?\}|.",
    DOTALL,
)
_REPETITION = pattern(r"\{(\d+)(?:,(\d*))?\}")


def fence_faults(tree: Node) -> Iterator[tuple[str, int]]:
    """Yields what is refused in a tree, each with the number of its node."""
    yield from _faults(tree, inside=False)


def pattern_atoms(regex: str) -> int:
    """Returns how many characters and classes a regular expression has with its counted repetitions written out.

    It is a bound: the work of matching grows with it times the length of the text.
    """
    totals, last = [0], 0
    for token in _TOKEN.findall(regex):
        repetition = _REPETITION.fullmatch(token)
        if repetition is not None:
            last *= max(int(bound or 1) for bound in repetition.groups(default="1"))
            continue
        if token in ("*", "+", "?"):
            continue
        if token.startswith("(") and not token.startswith("\\"):
            totals[-1] += last
            totals.append(0)
            last = 0
        elif token == ")" and len(totals) > 1:
            last += totals.pop()
        else:
            totals[-1] += last
            last = _UNICODE_CLASS_ATOMS if "\\p" in token or "\\P" in token else 1
    return sum(totals) + last


def _faults(node: Node, inside: bool) -> Iterator[tuple[str, int]]:
    match node:
        case Fold():
            if inside:
                yield (
                    "a comprehension (all, exists, exists_one, map, filter) cannot stand in the body of another",
                    node.at,
                )
            if node.builds_list and isinstance(node.over, MapOf):
                yield "map and filter take a list, for the members of an object have no order", node.at
            yield from _faults(node.over, inside)
            for part in (node.condition, node.step, node.result):
                yield from _faults(part, True)
            return
        case Call():
            yield from _call_faults(node)
        case _:
            pass
    for child in children(node):
        yield from _faults(child, inside)


def _call_faults(call: Call) -> Iterator[tuple[str, int]]:
    if call.function == "matches":
        match call.arguments[-1]:
            case Literal(value=str() as regex):
                yield from ((fault, call.at) for fault in _pattern_faults(regex))
            case _:
                yield "matches takes its pattern as a text written in the expression, not as a computed one", call.at
    if call.function in _TIME_PARTS and len(call.arguments) == 2 and not isinstance(call.arguments[1], Literal):
        yield f"{call.function} takes its time zone as a text written in the expression, not as a computed one", call.at


def _pattern_faults(regex: str) -> Iterator[str]:
    if len(regex) > PATTERN_LENGTH_MAX:
        yield f"a pattern has at most {PATTERN_LENGTH_MAX} characters, this one has {len(regex)}"
    elif pattern_atoms(regex) > PATTERN_ATOMS_MAX:
        yield f"with its repetitions written out a pattern has at most {PATTERN_ATOMS_MAX} characters and classes"
