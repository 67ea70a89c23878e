"""docs/performance.md: the stored results of 'td3 bench' as one page.

The tables are made from the JSON files in benchmarks/results.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from td3.bench.pages import number, renew, table
from td3.config.toml import read_toml
from td3.errors import UserError

Report = dict[str, Any]
KINDS = ("peers", "throughput", "update", "images", "scaling", "environments")


def write_page(results: Path, references: Path, page: Path) -> list[Path]:
    """Bring the page up to date, and the figure beside it; returns what was written."""
    reports = read_results(results)
    anchors = read_toml(references / "speed.toml")
    written = []
    try:
        if scaling := list(of_kind(reports, "scaling").values()):
            from td3.bench.scaling_plot import plot_scaling

            written += plot_scaling(scaling, page.parent / "media" / "scaling")
        renew(page, "Performance", made(reports, anchors))
    except OSError as error:
        raise UserError(f"Cannot write {page}: {error.strerror}.") from error
    return [page, *written]


def read_results(folder: Path) -> dict[str, Report]:
    """Name → result, of every benchmark stored in the folder."""
    reports = {}
    for path in sorted(folder.glob("*.json")):
        try:
            report = json.loads(path.read_text(encoding="utf-8"))
            if isinstance(report, dict) and "benchmark" in report:
                made({path.stem: report}, {})
                reports[path.stem] = report
        except KeyError as error:
            raise UserError(f"{path} is not a whole benchmark: it lacks {error}.") from error
        except (OSError, ValueError) as error:
            raise UserError(f"{path} is not a stored benchmark: {error}.") from error
    return reports


def of_kind(reports: dict[str, Report], kind: str) -> dict[str, Report]:
    return {name: report for name, report in reports.items() if report["benchmark"] == kind}


def made(reports: dict[str, Report], anchors: dict[str, Any]) -> str:
    sections: dict[str, Callable[[dict[str, Report]], str]] = {
        "peers": peers,
        "throughput": throughput,
        "update": update,
        "images": lambda found: images(found, anchors),
        "scaling": scaling,
        "environments": environments,
    }
    parts = []
    for kind in dict.fromkeys([*KINDS, *(report["benchmark"] for report in reports.values())]):
        if found := of_kind(reports, kind):
            parts.append(sections.get(kind, anything)(found))
    return "\n\n".join([*parts, published(anchors), circumstances(reports)])


def peers(reports: dict[str, Report]) -> str:
    parts = ["## Beside other libraries"]
    for name, report in reports.items():
        settings, ratios = report["settings"], report["figures"]
        counts = [str(count) for count in settings["threads"]]
        rows = []
        for peer, facts in report["contestants"].items():
            label = f"{peer} {facts['version']}".strip()
            if "absent" in facts:
                rows.append([label, *[""] * len(counts), "", facts["absent"]])
                continue
            speeds = [spread(facts["steps_per_second"][count]) for count in counts]
            ratio = ratios.get(f"td3_over_{peer}_better")
            rows.append([label, *speeds, spread(ratio) if ratio else "", facts["uses"]])
        columns = [f"steps/s, {threads(int(count))}" for count in counts]
        header = ["", *columns, "td3 ÷ it, each at its better count", "through"]
        parts += [f"{place(report)}; {sizes(report)}, {length(report)} (`{name}`):"]
        parts += [table(header, rows)]
    return "\n\n".join(parts)


def throughput(reports: dict[str, Report]) -> str:
    shares = ("acting", "simulator", "replay_add", "update", "other")
    rows = []
    for name, report in reports.items():
        figures = report["figures"]
        where = [f"`{name}`", place(report), sizes(report)]
        speeds = [spread(figures[key]) for key in ("steps_per_second", "agent_steps_per_second")]
        parts = [f"{figures[f'{part}_share']['median']:.1f} %" for part in shares]
        rows.append([*where, *speeds, *parts])
    header = ["", "where", "what", "steps/s", "agent-steps/s", "acting", "simulator", "replay"]
    return "## Training end to end\n\n" + table([*header, "update", "the rest"], rows)


def update(reports: dict[str, Report]) -> str:
    keys = (
        "agent_updates_per_second",
        "milliseconds_per_update",
        "products_milliseconds_per_update",
        "update_over_products",
        "update_gigaflop_per_second",
    )
    rows = [
        [f"`{name}`", place(report), sizes(report)]
        + [spread(report["figures"][key]) for key in keys]
        for name, report in reports.items()
    ]
    header = ["", "where", "what", "agent-updates/s", "ms per update", "its matrix products, ms"]
    return "## The update alone\n\n" + table([*header, "update ÷ products", "GFLOP/s"], rows)


def images(reports: dict[str, Report], anchors: dict[str, Any]) -> str:
    """Ours and what others publish, in one table."""
    keys = ("updates_per_second", "frames_per_second_at_most", "sample_over_update")
    rows = []
    for name, report in reports.items():
        settings, figures = report["settings"], report["figures"]
        shape = " × ".join(map(str, settings["image"]))
        what = f"{settings['frame_stack']} stacked images {shape}, {sizes(report)}"
        on_gpu = str(settings["device"]).startswith("cuda")
        where = place(report) + (f", {settings['precision']}" if on_gpu else "")
        rows.append([f"`{name}`", where, what, *(spread(figures[key]) for key in keys)])
    for other in anchors.get("images", []):
        speeds = [f"{other[key]:,}" for key in ("updates_per_second", "frames_per_second")]
        rows.append(
            [f"{other['name']}, {other['source']}", other["where"], other["what"], *speeds, ""]
        )
    header = ["", "where", "what", "updates/s", "frames/s, at most", "sampling ÷ update"]
    return "## States that are images\n\n" + table(header, rows)


def scaling(reports: dict[str, Report]) -> str:
    parts = ["## As the work grows", "![Time against size](media/scaling.png)"]
    for name, report in reports.items():
        for axis, points in report["axes"].items():
            keys = next((list(point["figures"]) for point in points if "figures" in point), [])
            rows = [
                [f"{point['size']:,}"]
                + [
                    number(point["figures"][k]["median"]) if "figures" in point else ""
                    for k in keys
                ]
                + [point.get("left_out", "")]
                for point in points
            ]
            if not any(row[-1] for row in rows):
                rows = [row[:-1] for row in rows]
            header = [axis, *(key.replace("_", " ") for key in keys), "left out"]
            parts += [f"{place(report)} (`{name}`), {axis}:", table(header[: len(rows[0])], rows)]
    return "\n\n".join(parts)


def environments(reports: dict[str, Report]) -> str:
    parts = ["## Environments by themselves"]
    for name, report in reports.items():
        figures, workers = report["figures"], report["settings"]["workers"]
        rows = [
            [
                size,
                *(spread(figures[f"{what}_{size}"]) for what in ("own", "workers")),
                str(count),
                spread(figures[f"own_over_workers_{size}"]),
            ]
            for size, count in workers.items()
        ]
        header = ["environments", "a step of all in one process, µs", "in workers, µs", "workers"]
        parts += [
            f"{place(report)}; {report['settings']['environment']}, {length(report)} (`{name}`):",
            table([*header, "one process ÷ workers"], rows),
        ]
    return "\n\n".join(parts)


def anything(reports: dict[str, Report]) -> str:
    """A benchmark that has no section of its own: every figure, by its name."""
    kind = next(iter(reports.values()))["benchmark"]
    parts = [f"## {kind.capitalize()}"]
    for name, report in reports.items():
        rows = [
            [key.replace("_", " "), f"{spread(figure)} {figure['unit']}".strip()]
            for key, figure in report.get("figures", {}).items()
        ]
        parts += [f"{place(report)} (`{name}`):", table(["", "median (quartiles)"], rows)]
    return "\n\n".join(parts)


def published(anchors: dict[str, Any]) -> str:
    """What is quoted, with its source."""
    systems = []
    for system in anchors.get("system", []):
        speed = system.get("steps_per_second")
        many = system.get("agent_steps_per_second")
        shown = f"{speed:,}" if speed else f"{many:,} agent-steps"
        systems.append([system["name"], system["where"], shown, system["source"]])
    floors = [
        [floor["what"], floor["value"], floor["source"]] for floor in anchors.get("floor", [])
    ]
    return "\n\n".join(
        [
            "## Published and earlier figures",
            "HalfCheetah, 256-256 networks, batch 256, one update per step, one environment, "
            "unless said otherwise; from `benchmarks/reference/speed.toml`.",
            table(["system", "where", "steps/s", "source"], systems),
            "## Floors",
            "17 observations, 6 actions, 256-256 networks, batch 256.",
            table(["what", "value", "source"], floors),
        ]
    )


def circumstances(reports: dict[str, Report]) -> str:
    """Hardware, versions, commit and date of every file."""
    rows = []
    for name, report in reports.items():
        versions = report["versions"]
        known = [
            f"{key} {versions[key]}" for key in ("python", "torch", "mujoco") if key in versions
        ]
        commit = (report["commit"] or "installed")[:10]
        if str(report["commit"]).endswith("+"):
            commit += ", with changes"
        load = f"{report['load_average'][0]:.1f}"
        cores = report["machine"]["cores"]
        when = report["time"][:10]
        rows.append([f"`{name}`", place(report), cores, ", ".join(known), commit, when, load])
    header = ["file", "where", "cores", "versions", "commit", "date", "load before"]
    return "## Circumstances\n\n" + table(header, rows)


def place(report: Report) -> str:
    settings, machine = report["settings"], report["machine"]
    if str(settings.get("device", "cpu")).startswith("cuda"):
        return str(machine["gpu"])
    counts = settings.get("threads", 1)
    return str(machine["processor"]) + ("" if isinstance(counts, list) else f", {threads(counts)}")


def threads(count: int) -> str:
    return f"{count} thread{'s' if count != 1 else ''}"


def sizes(report: Report) -> str:
    settings = report["settings"]
    hidden = "-".join(map(str, settings["hidden_sizes"]))
    agents = settings["agents"]
    parts = [settings.get("environment", ""), hidden, f"batch {settings['batch_size']}"]
    parts += [f"{agents} agent{'s' if agents != 1 else ''}"]
    return ", ".join(part for part in parts if part)


def length(report: Report) -> str:
    settings = report["settings"]
    return f"{settings['rounds']} rounds of {settings['seconds']:g} s"


def spread(figure: dict[str, Any]) -> str:
    lower, upper = number(figure["lower_quartile"]), number(figure["upper_quartile"])
    return f"{number(figure['median'])} ({lower} – {upper})"
