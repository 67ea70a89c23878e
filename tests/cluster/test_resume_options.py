"""Options of `td3 resume` that a run would ignore are refused."""

from pathlib import Path

import pytest

from td3.cluster.run import FILE, continues_on_cluster
from td3.errors import UserError


@pytest.mark.parametrize("name", ["at", "device", "environment", "accept_changes"])
def test_resume_of_a_cluster_run_refuses_options_of_other_runs(tmp_path: Path, name: str) -> None:
    (tmp_path / FILE).touch()
    assert continues_on_cluster(tmp_path, "auto", at=None, device="", accept_changes=False)
    with pytest.raises(UserError, match=rf"a run of a cluster; it continues without {name}\."):
        continues_on_cluster(tmp_path, "", **{name: 100})


def test_resume_of_another_run_refuses_a_cluster(tmp_path: Path) -> None:
    assert not continues_on_cluster(tmp_path, "", at=100)
    with pytest.raises(UserError, match="without --cluster; it continues without cluster"):
        continues_on_cluster(tmp_path, "auto")
