"""Which classes a file may meet instances of, where types are unknown."""

from __future__ import annotations

from collections.abc import Iterator

from renaming.program import Program, Thing

# folders whose classes a file of a folder may meet though it does not import them
SEES = {"rlox_cli": ("rlox", "rlox_cli"), "benchmarks": ("rlox", "rlox_cli", "benchmarks")}
FIXTURES = "helpers.fixtures"  # of all tests


class Meetings:
    """What each file imports, directly or not."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._direct = {
            source.module: set(_imported_modules(program, path)) for path, source in program.sources.items()
        }
        self._closures: dict[str, set[str]] = {}

    def may_meet(self, path: str, thing: Thing) -> bool:
        """Whether a file may meet an instance of a class: it imports its module, or is of its package."""
        program = self._program
        module = program.types.classes[str(thing[1])].module if isinstance(thing, tuple) else ""
        folder, home = path.partition("/")[0], program.modules.get(module, "").partition("/")[0]
        fixtures = self._imported(FIXTURES) if folder == "tests" else set()
        known = self._imported(program.sources[path].module) | fixtures
        return home in SEES.get(folder, ("rlox",)) or module in known

    def _imported(self, module: str) -> set[str]:
        """The module and all that it imports."""
        if module not in self._closures:
            seen, left = {module}, [module]
            while left:
                new = self._direct.get(left.pop(), set()) - seen
                seen |= new
                left += new
            self._closures[module] = seen
        return self._closures[module]


def _imported_modules(program: Program, path: str) -> Iterator[str]:
    for scope in program.scopes[path].module.walk():
        for binding in scope.bindings.values():
            for module, name, _ in binding.imports:
                yield module
                if name is not None:
                    yield f"{module}.{name}"
