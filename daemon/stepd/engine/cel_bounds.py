"""How much work an expression can be at most on the values at hand, counted before the runtime is let loose on them.

The runtime cannot be interrupted, so the bound comes first. It counts units of about 50 ns: the members of each value
that an operator reads, each time it is read; what stands in the body of a comprehension counts for every item.
"""

from collections.abc import Callable, Mapping
from typing import Any

from stepd.engine.cel_fences import pattern_atoms
from stepd.engine.cel_syntax import INDEX, Call, Fold, ListOf, Literal, MapOf, Name, Node, Path, Reference, Selection
from stepd.engine.cel_values import SCALAR, Size, Unfit, heaviest_member

WORK_MAX = 4_000_000
"""Units that one template, condition or table of rules may take together."""
FOLD_ITEMS_MAX = 1_000

NODE_UNITS = 3
EXPRESSION_UNITS = 400
TO_RUNTIME_UNITS = 4
FROM_RUNTIME_UNITS = 24
PATTERN_ATOM_UNITS = 240
MEASURED_MEMBER_UNITS = 30
PROBE_UNITS = 2_000

_NOTHING = Size(0, 0)

_SCALAR_FUNCTIONS = frozenset(
    {"_==_", "_!=_", "_<_", "_<=_", "_>_", "_>=_", "_&&_", "_||_", "!_", "-_", "_-_", "_*_", "_/_", "_%_"}
    | {"@not_strictly_false", "size", "startsWith", "endsWith", "int", "uint", "double", "bool", "type"}
)


class Allowance:
    """What is left of the work and of the bytes that one evaluation, or one template with its many, may take."""

    __slots__ = ("bytes_left", "units_left")

    def __init__(self, units: int = WORK_MAX, copied_bytes: int = 32 * 1024 * 1024) -> None:
        self.units_left = units
        self.bytes_left = copied_bytes

    def take(self, units: int) -> None:
        """Takes units of work. Raises Unfit where too few are left."""
        self.units_left -= units
        if self.units_left < 0:
            raise Unfit("more work than an expression, or all of a template together, may be on values of this size")

    def take_bytes(self, count: int) -> None:
        """Takes bytes of values that pass unchanged. Raises Unfit where too few are left."""
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise Unfit("more bytes than a template may copy")


class Estimate:
    """Bounds the work of one expression on the values at hand; `work` grows with each call of `size`.

    What finding the bound takes itself, it takes from the allowance at once.
    """

    def __init__(
        self,
        values: Mapping[Path, Any],
        sizes: Mapping[Path, Size],
        count_items: Callable[[Fold], tuple[int, bool]],
        allowance: Allowance,
    ) -> None:
        """`count_items` evaluates what a comprehension runs over: how many items it has, and whether in an object."""
        self.work = 0
        self._values = values
        self._sizes = sizes
        self._count_items = count_items
        self._allowance = allowance
        self._variables: dict[str, Size] = {}
        self._heaviest: dict[Path, Size] = {}

    def size(self, node: Node) -> Size:
        """Returns an upper bound of what the node's value weighs.

        Raises Unfit where a comprehension has too many items.
        """
        self.work += NODE_UNITS
        match node:
            case Literal(value=str() | bytes() as text):
                return Size(1 + len(text) // 8, 4 * len(text) if isinstance(text, str) else len(text))
            case Literal():
                return SCALAR
            case Name():
                return self._variables.get(node.name, SCALAR)
            case Reference():
                return SCALAR if node.path.presence else self._sizes[node.path]
            case Selection():
                operand = self.size(node.operand)
                return SCALAR if node.presence else operand
            case ListOf():
                return _sum([self.size(item) for item in node.items])
            case MapOf():
                return _sum([self.size(part) for entry in node.entries for part in entry])
            case Call():
                return self._call(node)
            case Fold():
                return self._fold(node)

    def _call(self, call: Call) -> Size:
        if call.function == INDEX:
            return self._element(call)
        sizes = [self.size(argument) for argument in call.arguments]
        weight = sum(size.weight for size in sizes)
        text = sum(size.text for size in sizes)
        self.work += weight
        match call.function:
            case "_?_:_":
                return Size(max(size.weight for size in sizes), max(size.text for size in sizes))
            case "@in":
                if self._is_object(call.arguments[1]):
                    self.work -= sizes[1].weight
                return SCALAR
            case "contains":
                self.work += text // 5 + sizes[0].text * sizes[1].text // 1_000
                return SCALAR
            case "matches":
                atoms = _atoms(call.arguments[-1])
                self.work += atoms * (PATTERN_ATOM_UNITS + sizes[0].text // 2)
                return SCALAR
            case "_+_":
                return Size(weight, text)
            case function if function in _SCALAR_FUNCTIONS:
                return SCALAR
            case _:
                self.work += text // 2
                return Size(weight, text)

    def _element(self, call: Call) -> Size:
        """`a[b]` takes the same time whatever `a` weighs, and no more comes of it than the heaviest of its members."""
        container, key = call.arguments
        size = self.size(container)
        self.work += self.size(key).weight
        if not isinstance(container, Reference) or size.weight < 1_000:
            return size
        path = container.path
        if not isinstance(self._values[path], dict | list):
            return size
        if path not in self._heaviest:
            self._allowance.take(MEASURED_MEMBER_UNITS * len(self._values[path]))
            self._heaviest[path] = heaviest_member(self._values[path])
        return self._heaviest[path]

    def _fold(self, fold: Fold) -> Size:
        before = self.work
        over = self.size(fold.over)
        count, is_object = self._count(fold.over) or self._probe(fold, over, self.work - before)
        if count > FOLD_ITEMS_MAX:
            raise Unfit(f"a comprehension over {count} items, of which there may be {FOLD_ITEMS_MAX}")
        if fold.builds_list and is_object:
            raise Unfit("map or filter over an object: they take a list, for the members of an object have no order")
        light_work, light = self._body(fold, _NOTHING)
        heavy_work, heavy = self._body(fold, over)
        self.work += count * light_work + heavy_work - light_work
        if not fold.builds_list:
            return SCALAR
        self.work += count * count // 2
        return Size(
            count * light.weight + heavy.weight - light.weight + 1, count * light.text + heavy.text - light.text + 2
        )

    def _probe(self, fold: Fold, over: Size, work: int) -> tuple[int, bool]:
        """Counts the items by evaluating what the comprehension runs over, which takes that work once more."""
        given = TO_RUNTIME_UNITS * sum(size.weight for size in self._sizes.values())
        self._allowance.take(PROBE_UNITS + given + work + FROM_RUNTIME_UNITS * over.weight)
        return self._count_items(fold)

    def _body(self, fold: Fold, items: Size) -> tuple[int, Size]:
        """Returns the work and the result of one round, with a variable of that size.

        Both grow with the variable's size at most in proportion, so that all rounds together are the rounds with an
        empty variable and one more with all items at once.
        """
        before = self.work
        outer = self._variables
        self._variables = {**outer, fold.variable: items, fold.accumulator: _NOTHING}
        self.size(fold.condition)
        result = self.size(fold.step)
        self._variables = outer
        work, self.work = self.work - before, before
        return work, result

    def _count(self, over: Node) -> tuple[int, bool] | None:
        """Returns the most items there can be, and whether in an object; None where only evaluation can tell."""
        match over:
            case Reference():
                value = self._values[over.path]
                return len(value) if isinstance(value, list | dict) else 0, isinstance(value, dict)
            case ListOf():
                return len(over.items), False
            case MapOf():
                return len(over.entries), True
            case Fold() if over.builds_list:
                return self._count(over.over)
            case Call(function="_+_", arguments=(first, second)):
                return _both(self._count(first), self._count(second), sum)
            case Call(function="_?_:_", arguments=(_, first, second)):
                return _both(self._count(first), self._count(second), max)
            case _:
                return None

    def _is_object(self, node: Node) -> bool:
        return isinstance(node, Reference) and isinstance(self._values[node.path], dict)


def _both(
    first: tuple[int, bool] | None, second: tuple[int, bool] | None, counted: Callable[[tuple[int, int]], int]
) -> tuple[int, bool] | None:
    if first is None or second is None:
        return None
    return counted((first[0], second[0])), first[1] or second[1]


def _sum(sizes: list[Size]) -> Size:
    return Size(1 + sum(size.weight + 1 for size in sizes), 2 + sum(size.text + 1 for size in sizes))


def _atoms(node: Node) -> int:
    return pattern_atoms(node.value) if isinstance(node, Literal) and isinstance(node.value, str) else 0
