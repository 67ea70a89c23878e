"""docs/performance.md: the measurements stored in benchmarks/results as tables."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.td3_bench.markdown import (
    describe_place,
    fill_template,
    format_table,
    format_threads,
    update_page,
)
from benchmarks.td3_bench.population_table import population_section
from td3.config.toml import read_toml
from td3.errors import UserError
from td3.text import number

Report = dict[str, Any]
Reports = dict[str, Report]


def write_performance(results: Path, references: Path, page: Path) -> list[Path]:
    """Update the page and its figure; return the files written."""
    reports = read_reports(results)
    published = read_toml(references / "speed.toml")
    written = []
    try:
        if scaling := list(of_kind(reports, "scaling").values()):
            from benchmarks.td3_bench.scaling_plot import plot_scaling

            written += plot_scaling(scaling, page.parent / "media" / "scaling")
        update_page(page, "Performance", performance_content(reports, published))
    except OSError as error:
        raise UserError(f"Cannot write {page}: {error.strerror}.") from error
    return [page, *written]


def read_reports(folder: Path) -> Reports:
    """Read every measurement of the folder, by file name."""
    reports = {}
    for path in sorted(folder.glob("*.json")):
        try:
            report = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(report, dict) and "benchmark" in report:
                performance_content({path.stem: report}, {})
                reports[path.stem] = report
        except KeyError as error:
            raise UserError(f"{path} is not a complete benchmark: {error} is missing.") from error
        except (OSError, ValueError) as error:
            raise UserError(f"{path} is not a stored benchmark: {error}.") from error
    return reports


def of_kind(reports: Reports, kind: str) -> Reports:
    return {name: report for name, report in reports.items() if report["benchmark"] == kind}


def performance_content(reports: Reports, published: dict[str, Any]) -> str:
    sections: dict[str, Callable[[Reports], str]] = {
        "peers": peers_section,
        "throughput": throughput_section,
        "host": host_section,
        "update": update_section,
        "images": lambda found: images_section(found, published),
        "scaling": scaling_section,
        "environments": environments_section,
    }
    kinds = dict.fromkeys([*sections, *(report["benchmark"] for report in reports.values())])
    parts = [
        sections.get(kind, other_section)(found)
        for kind in kinds
        if (found := of_kind(reports, kind))
    ]
    if populations := population_section(reports):
        parts.append(populations)
    return "\n\n".join([*parts, published_section(published), circumstances_section(reports)])


def peers_section(reports: Reports) -> str:
    parts = ["## Comparison with other libraries"]
    for name, report in reports.items():
        ratios, counts = report["figures"], [str(count) for count in report["settings"]["threads"]]
        rows = []
        for peer, facts in report["contestants"].items():
            label = f"{peer} {facts['version']}".strip()
            if "absent" in facts:
                rows.append([label, *[""] * len(counts), "", facts["absent"]])
                continue
            speeds = [format_spread(facts["steps_per_second"][count]) for count in counts]
            ratio = ratios.get(f"td3_over_{peer}_better")
            rows.append([label, *speeds, format_spread(ratio) if ratio else "", facts["uses"]])
        columns = [f"steps/s, {format_threads(int(count))}" for count in counts]
        speed_up = "speed-up of td3 (each at its best thread count)"
        parts += [
            f"{describe_place(report)}; {describe_sizes(report)}, {describe_rounds(report)} "
            f"(`{name}`):",
            format_table(["", *columns, speed_up, "interface"], rows),
        ]
    return "\n\n".join(parts)


def throughput_section(reports: Reports) -> str:
    shown = ("acting", "simulator", "replay_add", "update")
    rows = []
    for name, report in reports.items():
        figures = report["figures"]
        speeds = [figures[key] for key in ("steps_per_second", "agent_steps_per_second")]
        shares = {
            key.removesuffix("_share"): figure["median"]
            for key, figure in figures.items()
            if key.endswith("_share")
        }
        parts = [shares.pop(part) for part in shown]
        parts.append(sum(shares.values()))  # files differ in how finely they divide the rest
        cells = [f"{part:.1f} %" for part in parts]
        rows.append([*first_columns(name, report), *map(format_spread, speeds), *cells])
    header = ["", "machine", "sizes", "steps/s", "agent-steps/s", "acting", "simulator"]
    table = format_table([*header, "replay buffer", "update", "other"], rows)
    return "## Training: speed and time shares\n\n" + table


def host_section(reports: Reports) -> str:
    """Processor time of the host's work, without networks and simulators."""
    parts = ("exploration", "transfer", "replay_add", "statistics", "other")
    rows = []
    for name, report in reports.items():
        figures = report["figures"]
        whole = [figures[f"{part}_cpu_microseconds"] for part in ("host", "drawing")]
        cells = [number(figures[f"{part}_microseconds"]["median"]) for part in parts]
        workers = str(report["settings"]["workers"])
        rows.append([*first_columns(name, report), workers, *map(format_spread, whole), *cells])
    header = ["", "machine", "sizes", "workers", "learner, µs", "random numbers, µs"]
    table = format_table([*header, *(part.replace("_", " ") for part in parts)], rows)
    return "\n\n".join(
        [
            "## The host's work of a step",
            "`td3 bench throughput --host-only`: processor time of one step of all environments "
            "without networks and simulators. Threads draw the random numbers at the same time.",
            table,
        ]
    )


def update_section(reports: Reports) -> str:
    keys = (
        "agent_updates_per_second",
        "milliseconds_per_update",
        "products_milliseconds_per_update",
        "update_over_products",
        "update_gigaflop_per_second",
    )
    rows = [
        [*first_columns(name, report), *(format_spread(report["figures"][key]) for key in keys)]
        for name, report in reports.items()
    ]
    header = [
        "",
        "machine",
        "sizes",
        "agent-updates/s",
        "ms per update",
        "ms, matrix products alone",
    ]
    return "## Update alone\n\n" + format_table([*header, "update ÷ products", "GFLOP/s"], rows)


def images_section(reports: Reports, published: dict[str, Any]) -> str:
    """Our figures and published ones in one table."""
    keys = ("updates_per_second", "frames_per_second_at_most", "sample_over_update")
    rows = []
    for name, report in reports.items():
        settings, figures = report["settings"], report["figures"]
        shape = " × ".join(map(str, settings["image"]))
        sizes = f"{settings['frame_stack']} stacked images {shape}, {describe_sizes(report)}"
        on_gpu = str(settings["device"]).startswith("cuda")
        place = describe_place(report) + (f", {settings['precision']}" if on_gpu else "")
        rows.append([f"`{name}`", place, sizes, *(format_spread(figures[key]) for key in keys)])
    for other in published.get("images", []):
        speeds = [f"{other[key]:,}" for key in ("updates_per_second", "frames_per_second")]
        label = f"{other['name']}, {other['source']}"
        rows.append([label, other["where"], other["what"], *speeds, ""])
    header = ["", "machine", "sizes", "updates/s", "frames/s, at most", "sampling ÷ update"]
    return "## Image observations\n\n" + format_table(header, rows)


def scaling_section(reports: Reports) -> str:
    parts = ["## Scaling", "![Time against size](media/scaling.png)"]
    for name, report in reports.items():
        for axis, points in report["axes"].items():
            place = f"{describe_place(report)} (`{name}`), {axis}:"
            parts += [place, scaling_table(axis, points)]
    return "\n\n".join(parts)


def scaling_table(axis: str, points: list[Report]) -> str:
    keys = next((list(point["figures"]) for point in points if "figures" in point), [])
    rows = []
    for point in points:
        figures = point.get("figures", {})
        cells = [number(figures[key]["median"]) if figures else "" for key in keys]
        rows.append([f"{point['size']:,}", *cells, point.get("left_out", "")])
    header = [axis, *(key.replace("_", " ") for key in keys), "left out"]
    columns = len(header) if any(row[-1] for row in rows) else len(header) - 1
    return format_table(header[:columns], [row[:columns] for row in rows])


def environments_section(reports: Reports) -> str:
    parts = ["## Environment steps alone"]
    for name, report in reports.items():
        figures, workers = report["figures"], report["settings"]["workers"]
        rows = [
            [
                size,
                *(format_spread(figures[f"{where}_{size}"]) for where in ("own", "workers")),
                str(count),
                format_spread(figures[f"own_over_workers_{size}"]),
            ]
            for size, count in workers.items()
        ]
        task = report["settings"]["environment"]
        header = ["environments", "one step of all, one process, µs", "with workers, µs", "workers"]
        parts += [
            f"{describe_place(report)}; {task}, {describe_rounds(report)} (`{name}`):",
            format_table([*header, "speed-up by workers"], rows),
        ]
    return "\n\n".join(parts)


def other_section(reports: Reports) -> str:
    """List every figure of a benchmark without a section of its own."""
    kind = next(iter(reports.values()))["benchmark"]
    parts = [f"## {kind.capitalize()}"]
    for name, report in reports.items():
        rows = [
            [key.replace("_", " "), f"{format_spread(figure)} {figure['unit']}".strip()]
            for key, figure in report.get("figures", {}).items()
        ]
        table = format_table(["", "median (quartiles)"], rows)
        parts += [f"{describe_place(report)} (`{name}`):", table]
    return "\n\n".join(parts)


def published_section(published: dict[str, Any]) -> str:
    """Quoted figures with their sources."""
    systems = []
    for system in published.get("system", []):
        speed, many = system.get("steps_per_second"), system.get("agent_steps_per_second")
        text = f"{speed:,}" if speed else f"{many:,} agent-steps"
        systems.append([system["name"], system["where"], text, system["source"]])
    bounds = [[one["what"], one["value"], one["source"]] for one in published.get("floor", [])]
    return fill_template(
        "performance_published",
        systems=format_table(["system", "machine", "steps/s", "source"], systems),
        bounds=format_table(["quantity", "value", "source"], bounds),
    )


def circumstances_section(reports: Reports) -> str:
    """Hardware, versions, commit and date of every file."""
    rows = []
    for name, report in reports.items():
        found = report["versions"]
        versions = [f"{key} {found[key]}" for key in ("python", "torch", "mujoco") if key in found]
        commit = (report["commit"] or "installed")[:10]
        if str(report["commit"]).endswith("+"):
            commit += ", with changes"
        machine = [describe_place(report), report["machine"]["cores"], ", ".join(versions)]
        load = f"{report['load_average'][0]:.1f}"
        rows.append([f"`{name}`", *machine, commit, report["time"][:10], load])
    header = ["file", "machine", "cores", "versions", "commit", "date", "load before"]
    return "## Machines and versions\n\n" + format_table(header, rows)


def first_columns(name: str, report: Report) -> list[str]:
    return [f"`{name}`", describe_place(report), describe_sizes(report)]


def describe_sizes(report: Report) -> str:
    settings = report["settings"]
    hidden, agents = "-".join(map(str, settings["hidden_sizes"])), settings["agents"]
    parts = [settings.get("environment", ""), hidden, f"batch {settings['batch_size']}"]
    parts += [f"{agents} agent{'s' if agents != 1 else ''}"]
    return ", ".join(part for part in parts if part)


def describe_rounds(report: Report) -> str:
    settings = report["settings"]
    return f"{settings['rounds']} rounds of {settings['seconds']:g} s"


def format_spread(figure: dict[str, Any]) -> str:
    """Return the median and the quartiles."""
    lower, upper = number(figure["lower_quartile"]), number(figure["upper_quartile"])
    return f"{number(figure['median'])} ({lower} – {upper})"
