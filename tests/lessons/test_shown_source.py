"""Lessons show the code of td3 itself."""

import inspect
import subprocess
import sys
import textwrap

import pytest

from td3 import TD3
from td3.lessons import show
from td3.lessons.source import function, step


def test_show_prints_the_lines_of_a_step(capsys: pytest.CaptureFixture[str]) -> None:
    show(5)
    shown = capsys.readouterr().out
    assert shown.startswith("# td3/algorithm/agent.py\n# Step 5:")
    assert "next_action = self.actor_target(next_state)" in shown
    assert "Step 6" not in shown


def test_show_prints_a_method_as_inspect_finds_it(capsys: pytest.CaptureFixture[str]) -> None:
    show("algorithm/agent.py", "TD3.combine")
    assert textwrap.dedent(inspect.getsource(TD3.combine)) in capsys.readouterr().out


def test_lessons_are_an_attribute_of_the_package() -> None:
    code = "import sys, td3; td3.lessons.check; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_source_of_what_does_not_exist_is_an_error() -> None:
    with pytest.raises(LookupError, match="Step 3"):
        step(3)
    with pytest.raises(LookupError, match=r"no TD3\.nothing"):
        function("algorithm/agent.py", "TD3.nothing")
