"""What the source may not contain, which module may import which, and that imports stay light."""

import ast
import json
import subprocess
import sys
from dataclasses import fields
from importlib.metadata import requires
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import td3
from td3.seeding import Streams, as_seeds, restore_stream, stream_state

PACKAGE = Path(td3.__file__).parent
FORBIDDEN_MODULES = {
    "pickle",
    "_pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "joblib",
    "marshal",
    "shelve",
}
FORBIDDEN_NAMES = {"eval", "exec"}
FORBIDDEN_MEMBERS = {
    ("torch", "load"),
    ("yaml", "load"),
    ("yaml", "unsafe_load"),
    ("yaml", "full_load"),
    ("builtins", "eval"),
    ("builtins", "exec"),
    ("np", "load"),
    ("numpy", "load"),
    ("jit", "load"),
    ("hub", "load"),
}


def forbidden(source: str) -> list[str]:
    """Everything in a Python source that could run what it reads."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found += [n.name for n in names if n.name.split(".")[0] in FORBIDDEN_MODULES]
            case ast.ImportFrom(module=str(module), names=names):
                found += [module] * (module.split(".")[0] in FORBIDDEN_MODULES)
                found += [
                    f"{module}.{n.name}" for n in names if (module, n.name) in FORBIDDEN_MEMBERS
                ]
            case ast.Name(id=name, ctx=ast.Load()) if name in FORBIDDEN_NAMES:
                found.append(name)
            case ast.Attribute(value=ast.Name(id=owner) | ast.Attribute(attr=owner), attr=name):
                found += [f"{owner}.{name}"] * ((owner, name) in FORBIDDEN_MEMBERS)
            case ast.Call(args=[ast.Constant(value=str(name)), *_]) if name in FORBIDDEN_MODULES:
                found.append(name)  # import_module("pickle"), __import__("pickle")
            case ast.keyword(arg="allow_pickle"):
                found.append("allow_pickle")
    return found


def sources(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def test_nothing_in_the_source_can_run_what_it_reads() -> None:
    paths = sources(PACKAGE)
    assert len(paths) >= 45
    found = {str(path): forbidden(path.read_text(encoding="utf-8")) for path in paths}
    assert {path: what for path, what in found.items() if what} == {}


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "import pickle as innocent",
        "from pickle import loads",
        "def later():\n    import marshal",
        "import shelve, json",
        "import joblib.numpy_pickle",
        "import torch\ntorch.load('x')",
        "from torch import load",
        "reader = torch.load",
        "torch.jit.load('x')",
        "yaml.load(text)",
        "eval('1')",
        "run = exec",
        "import builtins\nbuiltins.eval('1')",
        "importlib.import_module('pickle')",
        "__import__('dill')",
        "np.load('x', allow_pickle=True)",
        "read(path, allow_pickle=True)",
    ],
)
def test_a_planted_line_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "inner").mkdir()
    planted = tmp_path / "inner" / "planted.py"
    planted.write_text(line + "\n", encoding="utf-8")
    (path,) = sources(tmp_path)
    assert forbidden(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "line",
    [
        "network.eval()",
        "from safetensors.torch import load, load_file",
        "import json\njson.load(file)",
        "class Streams:\n    eval: Stream\nstreams.eval.integers(3)",
        "# pickle, torch.load, eval(",
        "'''Nothing is ever unpickled; no exec(.'''",
    ],
)
def test_an_innocent_line_is_not(line: str) -> None:
    assert forbidden(line) == []


def loaded_after(*statements: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after these statements."""
    code = "; ".join([*statements, "import json, sys", "print(json.dumps(sorted(sys.modules)))"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in json.loads(done.stdout)}


EXTRAS = {
    "matplotlib",
    "imageio",
    "imageio_ffmpeg",
    "pygame",
    "mujoco",
    "Box2D",
    "dm_control",
    "shimmy",
    "pybullet",
    "pybullet_envs_gymnasium",
    "tensorboard",
    "wandb",
    "envpool",
}


def test_importing_td3_or_its_command_loads_neither_torch_nor_an_extra() -> None:
    loaded = loaded_after("import td3, td3.cli")
    assert "td3" in loaded
    assert not loaded & (EXTRAS | {"torch", "gymnasium", "tyro", "rich", "scipy", "pandas"})


def test_parsing_a_commands_arguments_does_not_load_torch() -> None:
    loaded = loaded_after("import td3.cli.train, td3.cli.evaluate, td3.config")
    assert "torch" not in loaded


def test_a_worker_starts_without_torch() -> None:
    """Otherwise every worker would need seconds and hundreds of megabytes."""
    loaded = loaded_after("import td3.environments.workers.worker")
    assert "gymnasium" in loaded
    assert not loaded & (EXTRAS | {"torch", "tyro", "rich"})


def test_everything_that_trains_loads_torch_but_no_extra() -> None:
    loaded = loaded_after("import td3", "td3.TD3", "td3.train", "td3.load_policy", "td3.evaluate")
    assert "torch" in loaded
    assert not loaded & EXTRAS


def test_the_core_requires_six_packages_and_nothing_else() -> None:
    core = [line for line in requires("td3") or [] if "extra ==" not in line]
    names = {line.split(">")[0].split("<")[0].split("=")[0].strip() for line in core}
    assert names == {"torch", "numpy", "gymnasium", "tyro", "rich", "safetensors"}


def test_every_public_name_can_be_had() -> None:
    for name in td3.__all__:
        assert getattr(getattr(td3, name), "__name__", name) == name
    assert set(dir(td3)) >= set(td3.__all__)
    with pytest.raises(AttributeError, match="no attribute 'TD4'"):
        td3.TD4  # noqa: B018


NAMES = [field.name for field in fields(Streams)]


def draws(seed: int) -> dict[str, NDArray[np.float64]]:
    streams = Streams.from_seed(seed)
    return {name: getattr(streams, name).random(8) for name in NAMES}


def test_streams_differ_by_name_and_by_seed() -> None:
    assert NAMES == ["init", "explore", "replay", "smooth", "env", "eval"]
    first = np.concatenate([array for seed in range(50) for array in draws(seed).values()])
    assert len(np.unique(first)) == len(first) == 50 * 6 * 8


def test_the_same_seed_gives_the_same_streams() -> None:
    for name, array in draws(3).items():
        assert np.array_equal(array, draws(3)[name])


def test_streams_do_not_disturb_each_other() -> None:
    streams = Streams.from_seed(3)
    streams.eval.random(1000)
    streams.explore.standard_normal(7)
    assert np.array_equal(streams.replay.random(8), draws(3)["replay"])


def test_the_numbers_of_a_seed_never_change() -> None:
    # A seed in a publication must mean the same numbers in every later version.
    assert int(Streams.from_seed(0).env.integers(2**31)) == 967688993
    assert int(Streams.from_seed(0).eval.integers(2**31)) == 1495516105


@pytest.mark.parametrize("name", NAMES)
def test_a_streams_state_round_trips_through_json(name: str) -> None:
    stream = getattr(Streams.from_seed(11), name)
    stream.random(5)
    stream.integers(10, size=3, dtype=np.uint32)  # keeps half of a drawn number for the next call
    text = json.dumps(stream_state(stream))
    expected = (stream.integers(10, size=4, dtype=np.uint32), stream.standard_normal(9))
    other = getattr(Streams.from_seed(99), name)
    restore_stream(other, json.loads(text))
    found = (other.integers(10, size=4, dtype=np.uint32), other.standard_normal(9))
    for mine, theirs in zip(expected, found, strict=True):
        assert np.array_equal(mine, theirs)


def test_seeds_may_be_one_several_or_none() -> None:
    assert as_seeds(4) == as_seeds(np.int64(4)) == [4]
    assert as_seeds(range(3)) == as_seeds(np.arange(3)) == [0, 1, 2]
    np.random.seed(1)  # noqa: NPY002 - the global generator is the point
    first, second = as_seeds(None), as_seeds(None)
    assert first != second
    np.random.seed(1)  # noqa: NPY002
    assert as_seeds(None) == first
