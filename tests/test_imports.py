"""Which group of modules may import which, and that imports stay light."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import td3

PACKAGE = Path(td3.__file__).parent

# A group may import the groups in the lines above its own, and itself.
LAYERS = """
    errors seeding machine
    signals layout files untrusted text intervals serving
    config
    algorithm environments
    run
    policy
    training
    execution integrations
    launch
    report doctor bench exports
    play tuning
    cluster
    api testing
    lessons
    microscope
    studio
    cli
"""
LAYER_OF = {group: row for row, line in enumerate(LAYERS.split("\n")) for group in line.split()}


def group_of(module: str) -> str:
    """The group of a module by its dotted name; the package itself is the group "td3"."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in LAYER_OF else "td3"


def imported_groups(source: str) -> Iterator[str]:
    """The groups of td3 that a source imports anywhere, except for type checks."""
    tree = ast.parse(source)
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in for_types:
            continue
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (group_of(name) for name in names if name.split(".")[0] == "td3")


def forbidden_imports(group: str, source: str) -> set[str]:
    """The groups that a source in `group` imports and must not."""
    allowed = {other for other, row in LAYER_OF.items() if row < LAYER_OF[group]} | {group, "td3"}
    return set(imported_groups(source)) - allowed


def files() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE) + sorted(
        path for path in PACKAGE.glob("*.py") if not path.name.startswith("__")
    )


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_follow_the_order_of_groups(path: Path) -> None:
    group = path.relative_to(PACKAGE).with_suffix("").parts[0]
    assert group in LAYER_OF, f"{group} is a new group: give it a line in LAYERS"
    wrong = forbidden_imports(group, path.read_text(encoding="utf-8"))
    assert wrong == set()


@pytest.mark.parametrize(
    ("group", "source", "wrong"),
    [
        ("algorithm", "from td3.run import files", {"run"}),
        ("algorithm", "def later():\n    import td3.cli.train", {"cli"}),
        ("environments", "from td3.algorithm.agent import TD3", {"algorithm"}),
        ("cli", "from td3 import __version__\nfrom td3.launch import start", set()),
        ("policy", "if TYPE_CHECKING:\n    from td3.cli import main", set()),
    ],
)
def test_forbidden_imports_finds_planted_lines(group: str, source: str, wrong: set[str]) -> None:
    assert forbidden_imports(group, source) == wrong
