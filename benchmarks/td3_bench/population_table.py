"""Training end to end compared with the update alone, for growing numbers of agents."""

from typing import Any

from benchmarks.td3_bench.markdown import describe_place, format_table
from td3.text import number

Report = dict[str, Any]
Sizes = tuple[str, str]
"""Machine, and what is trained there."""
AGENTS = (1, 10, 32, 64, 128, 256)
MISSING = "not measured"
COMMAND = "`benchmarks/gpu.sh FOLDER population`"


def population_section(reports: dict[str, Report]) -> str:
    """A table for each machine with a GPU; says which figures are missing."""
    trainings = by_sizes(reports, "throughput", "agent_steps_per_second")
    updates = by_sizes(reports, "update", "agent_updates_per_second")
    parts = [
        population_table(*sizes, found, updates.get(sizes, {}))
        for sizes, found in trainings.items()
    ]
    if not parts:
        return ""
    return "\n\n".join(["## Populations: end to end compared with the update alone", *parts])


def by_sizes(
    reports: dict[str, Report], kind: str, figure: str
) -> dict[Sizes, dict[int, tuple[str, float]]]:
    """File and median of each number of agents, for reports on a GPU that can be compared."""
    found: dict[Sizes, dict[int, tuple[str, float]]] = {}
    for name, report in reports.items():
        settings = report["settings"]
        on_gpu = str(settings.get("device")).startswith("cuda")
        if report["benchmark"] != kind or not on_gpu or settings.get("precision") == "float32":
            continue
        hidden = "-".join(map(str, settings["hidden_sizes"]))
        sizes = describe_place(report), f"{hidden}, batch {settings['batch_size']}"
        median = float(report["figures"][figure]["median"])
        found.setdefault(sizes, {})[int(settings["agents"])] = name, median
    return found


def population_table(
    place: str,
    sizes: str,
    trainings: dict[int, tuple[str, float]],
    updates: dict[int, tuple[str, float]],
) -> str:
    rows = []
    for agents in sorted({*AGENTS, *trainings}):
        training, update = trainings.get(agents), updates.get(agents)
        cells = [MISSING if own is None else number(own[1]) for own in (training, update)]
        share = f"{100 * training[1] / update[1]:.0f} %" if training and update else ""
        files = ", ".join(f"`{own[0]}`" for own in (training, update) if own)
        rows.append([f"{agents}", *cells, share, files])
    header = [
        "agents",
        "end to end, agent-steps/s",
        "update alone, agent-updates/s",
        "end to end ÷ update",
        "files",
    ]
    missing = [row[0] for row in rows if MISSING in row]
    parts = [f"{place}; {sizes}:", format_table(header, rows)]
    if missing:
        parts.append(
            f"Not complete for {', '.join(missing)} agents: {COMMAND} measures all of them."
        )
    return "\n\n".join(parts)
