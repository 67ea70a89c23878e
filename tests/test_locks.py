"""The lock files fit constraints.txt, have hashes, and name no server."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOCKS = ["requirements.lock", "requirements-torch.lock"]
OPTIONAL = {"envpool", "learn"}  # CI needs neither EnvPool nor JupyterLab


def normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(path: Path) -> dict[str, str]:
    """Package → version."""
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {normalize(name): version for name, version in found}


@pytest.mark.parametrize("name", LOCKS)
def test_lock_has_hashes_and_no_addresses(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "://" not in text
    packages = re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]
    assert len(packages) > 10
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", package) for package in packages)


@pytest.mark.parametrize("name", LOCKS)
def test_lock_has_the_versions_of_constraints(name: str) -> None:
    constraints = pins(ROOT / "constraints.txt")
    other = {k: v for k, v in pins(ROOT / name).items() if constraints.get(k, v) != v}
    assert not other, "run: make locks"


def test_locks_have_all_constraints_but_optional_ones() -> None:
    locked = pins(ROOT / LOCKS[0]).keys() | pins(ROOT / LOCKS[1]).keys()
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = tables["project"]["optional-dependencies"]
    wanted = [*tables["project"]["dependencies"], *tables["build-system"]["requires"]]
    wanted += [
        own for extra, packages in extras.items() if extra not in OPTIONAL for own in packages
    ]
    names = {normalize(re.split(r"[\[<>=]", own)[0]) for own in wanted}
    assert names <= locked, "run: make locks"
