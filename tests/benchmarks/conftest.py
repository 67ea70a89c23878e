"""A finished plan, trained once for all tests of this folder."""

from collections.abc import Iterator

import pytest
from support.paper_plan import make_tiny_plan

from benchmarks.td3_bench import best_policy
from benchmarks.td3_bench.paper import train_tasks
from benchmarks.td3_bench.plan import Plan


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plan]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best_policy, "TEST_EPISODES", 5)
        patch.setattr(best_policy, "CHOICE_EPISODES", 2)
        plan = make_tiny_plan(tmp_path_factory.mktemp("paper"))
        finished: list[int] = []
        progress = train_tasks(plan, lambda progress: finished.append(len(progress.finished)))
        assert progress.failed == {}
        assert sorted(progress.finished) == sorted(progress.returns) == sorted(plan.tasks)
        assert finished[-1] == 2
        yield plan
