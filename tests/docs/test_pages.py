"""Pages link to what exists and name what exists."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from support.own_updates import SLOW

import td3
from td3.config import Config, dotted, from_dict, to_dict
from td3.config.variants import BUILT_IN, load_variant
from td3.testing import check_variant
from td3.training.metrics import Interval, evaluation_record

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
CHANGE = DOCS / "guide" / "change-the-algorithm.md"
FAST_EXAMPLES = (
    "HuberTD3",
    "ThreeCritics",
    "LayerNorm",
    "BehaviourCloning",
    "ScaledRewards",
    "UniformSmoothing",
    "Dropout",
    "Curious",
    "WarmUp",
)
SNIPPET = re.compile(r'--8<-- "([^"]+):([^"]+)"')
READING = (DOCS / "guide" / "reading-your-run.md").read_text(encoding="utf-8")
STEPS = (DOCS / "fifteen-steps.md").read_text(encoding="utf-8")
BOOKKEEPING = {"kind", "step", "agent", "seed", "best"}  # which record, not what it measures


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    links = [link for link in links if link != "play/index.html"]  # hooks/playground.py makes it
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_settings_named_in_pages_exist(page: Path) -> None:
    if page.name == "log.md":  # describes earlier settings
        return
    known = {key for key, _ in dotted(to_dict(Config()))} | {"environment.kwargs"}
    known |= {"loop.exploration_kwargs"}
    tables = "environment|agent|loop|evaluation|checkpoint|stop"
    code = " ".join(re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")))
    found = re.findall(rf"(?<![\w./])(?:--)?((?:{tables})\.(?!py\b)[a-z][a-z_-]+)(?![\w./(])", code)
    assert [name for name in found if name.replace("-", "_") not in known] == []


def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("hook", DOCS / "hooks" / "source.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("number", range(1, 16))
def test_every_step_is_explained_with_its_source(number: int) -> None:
    section = STEPS.partition(f"{{ #step-{number} }}")[2].partition("\n## ")[0]
    shown = hook().on_page_markdown(section)
    assert "```python" in shown
    assert "{{" not in shown
    if number >= 4:
        assert f"# Step {number}:" in shown
        assert f"# Step {number + 1}:" not in shown


def test_hook_refuses_a_step_that_does_not_exist() -> None:
    with pytest.raises(LookupError, match="Step 16"):
        hook().on_page_markdown("{{ step 16 }}")


def test_source_placeholders_of_all_pages_resolve() -> None:
    for page in PAGES:
        assert "{{ source" not in hook().on_page_markdown(page.read_text(encoding="utf-8"))


def records() -> list[dict[str, object]]:
    train = Interval(1, torch.device("cpu")).records(0, [0], [0])
    evaluation = evaluation_record(
        0, 0, 0, torch.ones(2, dtype=torch.float64).numpy(), torch.ones(2).int().numpy(), True
    )
    return [*train, evaluation]


@pytest.mark.parametrize("field", sorted({key for own in records() for key in own} - BOOKKEEPING))
def test_reading_your_run_explains_every_metric(field: str) -> None:
    assert f"`{field}`" in READING


@pytest.mark.parametrize(
    "anchor",
    [
        "return",
        "critic-loss",
        "q",
        "actor-loss",
        "saturated-actions",
        "episode-length",
        "speed",
        "best-and-last",
        "interval",
        "std-return",
        "episode-return",
        "updates",
        "learning-curve",
        "training-figures",
        "wall-time",
        "diverged",
        "events",
        "evaluate",
    ],
)
def test_reading_your_run_keeps_its_anchors(anchor: str) -> None:
    """Other tools link to these."""
    assert f"{{ #{anchor} }}" in READING


@pytest.mark.parametrize("name", td3.__all__)
def test_api_reference_has_an_entry_with_an_example(name: str) -> None:
    text = (DOCS / "api.md").read_text(encoding="utf-8")
    entry = text.partition(f"::: td3.{name}\n")[2].partition("\n::: ")[0]
    example = "".join(re.findall(r"```python\n(.*?)```", entry, re.DOTALL))
    used = name if name != "Policy" else "policy("
    assert used in example


def test_api_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_blocks(DOCS / "api.md")
    assert isinstance(names["policy"], td3.Policy)


def run_blocks(page: Path) -> dict[str, Any]:
    """Run the Python blocks of a page in order; returns the names that they define."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, Any] = {"__name__": "page"}  # the module of its classes
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(SNIPPET.sub(lambda found: snippet(found[1], found[2]), block), names)
    return names


def snippet(file: str, section: str) -> str:
    """A part of a file that a page includes."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return text.partition(f"[start:{section}]\n")[2].partition(f"# --8<-- [end:{section}]")[0]


def test_change_the_algorithm_runs_and_its_variants_are_fast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_blocks(CHANGE)
    assert names["run"].config.variant.delta == 0.5
    assert names["run"].evaluations["step"].max() == 1_800
    for name in FAST_EXAMPLES:
        report = check_variant(names[name], learns=False)
        assert not report.notes, report
    assert not check_variant(names["StratifiedTD3"]).failed


def test_change_the_algorithm_first_class_is_the_one_that_its_command_names() -> None:
    text = CHANGE.read_text(encoding="utf-8")
    shown, named = (re.search(own, text) for own in (r"class (\w+)\(", r"my_variant:(\w+)"))
    assert shown
    assert named
    assert shown[1] == named[1]


def test_own_environment_names_the_checks_of_the_doctor() -> None:
    source = (ROOT / "src/td3/doctor/environment_checks.py").read_text(encoding="utf-8")
    names = {*re.findall(r'Check\("(\w+)"', source), "observations"} - {"warning"}
    text = (DOCS / "guide" / "own-environment.md").read_text(encoding="utf-8")
    table = text.partition("## Check it first")[2].partition("## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == names


def test_own_environment_passes_arguments_that_its_class_takes() -> None:
    text = (DOCS / "guide" / "own-environment.md").read_text(encoding="utf-8")
    named = set(re.findall(r'environment\.kwargs (\w+)|MyEnv, (\w+)=|"kwargs": \{"(\w+)"', text))
    assert {"".join(words) for words in named} == {"friction"}


def test_worked_examples_have_at_most_15_lines() -> None:
    text = CHANGE.read_text(encoding="utf-8").partition("## Settings of your own")[0]
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 5
    for block in blocks:
        code = [line for line in block.splitlines() if line and not line.startswith("import ")]
        assert len(code) <= 15


@pytest.mark.parametrize("reason", SLOW.values())
def test_change_the_algorithm_explains_why_an_update_is_slow(reason: str) -> None:
    reasons = CHANGE.read_text(encoding="utf-8").partition("## What is fast")[2]
    assert reason in reasons


@pytest.mark.parametrize("name", BUILT_IN)
def test_variants_page_names_steps_and_settings_of_every_variant(name: str) -> None:
    text = (DOCS / "guide" / "variants.md").read_text(encoding="utf-8")
    replaced, settings, *_ = re.findall(rf"^\| `{name}` \| (.*?) \|", text, re.MULTILINE)
    stated = re.search(r"Replaces steps? ([\d, and]+):", load_variant(name).__doc__ or "")
    assert stated is not None
    assert re.findall(r"\d+", replaced) == re.findall(r"\d+", stated[1])
    defaults = to_dict(from_dict({"variant": name}))["variant"]
    own = {key: value for key, value in defaults.items() if key != "name"}
    assert settings == (", ".join(f"`{k}` ({v})" for k, v in own.items()) or "none")


def test_glossary_terms_are_sorted_and_explained() -> None:
    text = (DOCS / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^(\S.*)\n:   \S", text, re.MULTILINE)
    assert terms == sorted(terms, key=str.lower)
    assert len(terms) == len(set(terms)) == len(re.findall(r"^:   ", text, re.MULTILINE))
    needed = {"actor", "critic", "replay buffer", "return", "seed", "terminated", "truncated"}
    assert needed <= set(terms)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_snippet_markers_are_intact(page: Path) -> None:
    broken = re.findall(r"^.*-{1,2}8 +<.*$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert broken == []
