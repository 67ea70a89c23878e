"""Run folders, recipes and result files that somebody made to do harm; checksums are valid.

Each case changes the good run in a folder `run`, then a command is called.
"""

import os
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load, save
from torch import Tensor

from td3.config.toml import to_toml
from td3.files import digest
from td3.run.manifest import seal, unseal

Change = Callable[[Path], object]
NEWEST, OLDER = "checkpoints/000000200", "checkpoints/000000100"
LINES = ("metrics.jsonl", "events.jsonl")
POLICY = "policy/agent-0.safetensors"
DIGITS = "9" * 5000


class Case(NamedTuple):
    """One hostile file and the command that reads it."""

    change: Change
    words: tuple[str, ...]
    expected: str
    """refused: exit code 2; older: the checkpoint before is used; handled: one of both, or used;
    checked: td3 doctor reports it, or finds nothing."""


RESUME = ("resume", "run", "--steps", "210")
REPORT = ("report", "run", "--json")
PLOT = ("plot", "run", "--json")
EVALUATE = ("evaluate", "run", "--episodes", "1")
DOCTOR, COPY = ("doctor", "run"), ("copy", "run", "copied")
BACK = ("resume", "run", "--at", "100", "--steps", "110")
TRAIN = ("train", "--recipe", "recipe.toml", "--run", "new", "--quiet")


def manifest(change: Callable[[Any], Any]) -> Change:
    """Change the newest manifest in place, or return another content."""

    def apply(run: Path) -> None:
        path = run / NEWEST / "manifest.json"
        body = unseal(path.read_bytes())
        changed = change(body)
        content = changed if isinstance(changed, bytes) else seal(body)[:-66]
        path.write_bytes(content + b"\n" + digest(content).encode() + b"\n")

    return apply


def with_value(key: str, value: Any) -> Change:
    """Set a value in the newest manifest; ... removes it."""

    def change(body: Any) -> None:
        *path, last = key.split(".")
        for name in path:
            body = body[int(name) if name.isdigit() else name]
        place = int(last) if last.isdigit() else last
        if value is ...:
            del body[place]
        else:
            body[place] = value

    return manifest(change)


def tensors(change: Callable[[dict[str, Tensor]], object]) -> Change:
    """Change the tensors of the newest checkpoint."""

    def apply(run: Path) -> None:
        path = run / NEWEST / "state.safetensors"
        found = load(path.read_bytes())
        change(found)
        write_state(run, save({name: tensor.contiguous() for name, tensor in found.items()}))

    return apply


def write_state(run: Path, data: bytes) -> None:
    (run / NEWEST / "state.safetensors").write_bytes(data)
    facts = {"bytes": len(data), "sha256": digest(data)}
    manifest(lambda body: body.update(state=facts))(run)


def set_to(name: str, value: Any) -> Change:
    return tensors(lambda found: found.update({name: value}))


def reshaped(name: str, change: Callable[[Tensor], Tensor]) -> Change:
    return tensors(lambda found: found.update({name: change(found[name])}))


def without_tensor(name: str) -> Change:
    return tensors(lambda found: found.pop(name))


def rows(change: Callable[[bytes], bytes]) -> Change:
    """Change the newest replay file."""

    def apply(run: Path) -> None:
        path = run / "replay/000000200.rows"
        path.write_bytes(change(path.read_bytes()))
        data = path.read_bytes()
        facts = {"bytes": len(data), "sha256": digest(data)}
        manifest(lambda body: body["segments"][-1].update(facts))(run)

    return apply


def text(name: str, content: str | bytes) -> Change:
    data = content if isinstance(content, bytes) else content.encode()
    return lambda run: (run / name).write_bytes(data)


def settings(content: str | bytes) -> Change:
    """Other settings in config.toml; the whole file if they are no TOML."""

    def apply(run: Path) -> None:
        path = run / "config.toml"
        try:
            changed = tomllib.loads(content)  # type: ignore[arg-type]
            if max(map(len, map(str, changed))) > 1000 or len(content) > 2**21:
                raise ValueError
            good = tomllib.loads(path.read_text(encoding="utf-8"))
            path.write_text(to_toml(merged(good, changed)), encoding="utf-8")
        except (AttributeError, RecursionError, TypeError, ValueError):
            text("config.toml", content)(run)

    return apply


def merged(good: dict[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    tables = dict(good)
    for key, value in changed.items():
        both = isinstance(value, dict) and isinstance(good.get(key), dict)
        tables[key] = merged(good[key], value) if both else value
    return tables


def appended(name: str, content: str | bytes) -> Change:
    data = content if isinstance(content, bytes) else content.encode()
    return lambda run: (run / name).write_bytes((run / name).read_bytes() + data)


def replaced(name: str, old: str, new: str) -> Change:
    def apply(run: Path) -> None:
        before = (run / name).read_text(encoding="utf-8")
        assert old in before
        (run / name).write_text(before.replace(old, new), encoding="utf-8")

    return apply


def instead(name: str, make: Callable[[Path], object]) -> Change:
    def apply(run: Path) -> None:
        path = run / name
        if path.exists():
            path.unlink()
        make(path)

    return apply


def sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 3 * 2**30)


KINDS: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "folder": Path.mkdir,
    "link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "sparse": sparse,
}

ZERO = torch.zeros(1)
LONG = [1] * 300_000
CHECKPOINTS: dict[str, Change] = {
    **{
        f"{key} = {str(value)[:30]}": with_value(key, value)
        for key, value in [
            ("format", 4),
            ("format", {"a": 1}),
            ("format", True),
            ("step", -1),
            ("step", "200"),
            ("step", 201),
            ("step", 10**39),
            ("step", 200.0),
            ("step", True),
            ("state", None),
            ("state", ...),
            ("state.bytes", -5),
            ("state.bytes", 10**18),
            ("state.sha256", "abc"),
            ("state.sha256", None),
            ("segments", {}),
            ("segments", [None]),
            ("segments", ...),
            ("segments.0.file", "../../secret"),
            ("segments.0.file", "/dev/zero"),
            ("segments.0.file", "²00000100.rows"),
            ("segments.0.file", "\x1b[2J.rows"),
            ("segments.0.bytes", 1.5),
            ("segments.0.dims", [3]),
            ("segments.0.dims", [2**40, 1]),
            ("segments.0.dims", [2**31, 2**31]),
            ("segments.0.dims", [-3, 1]),
            ("segments.0.dims", [4, 1]),
            ("segments.0.tables", {}),
            ("segments.0.tables.rows.stop", [98]),
            ("segments.0.tables.rows.stop", [0, 99]),
            ("segments.0.tables.rows.stop", ["99"]),
            ("segments.0.tables.rows.stop", LONG),
            ("segments.0.tables.rows.start", [100]),
            ("segments.0.tables.rows.start", [-100]),
            ("segments.0.tables.rows.stop", [10**18]),
            ("segments.0.tables.other", {"start": [0], "stop": [0]}),
            ("segments.0.lives", [-1]),
            ("segments.0.lives", [0, 0]),
            ("segments.1.tables.rows.start", [0]),
            ("facts", []),
            ("facts", ...),
            ("facts.step", 100),
            ("facts.best", 3),
            ("facts.best", [True]),
            ("facts.best", ["1"]),
            ("facts.best", [float("nan")]),
            ("facts.best", []),
            ("facts.best", LONG),
            ("facts.frozen", [1]),
            ("facts.frozen", [-1]),
            ("facts.frozen", "0"),
            ("facts.metrics_bytes", -1),
            ("facts.metrics_bytes", "1"),
            ("facts.metrics_sha256", "1"),
            ("facts.streams", None),
            ("facts.streams", {}),
            ("facts.streams", {"replay.0": {"bit_generator": "MT19937"}}),
            ("facts.streams.env.0", None),
            ("facts.config", {"loop": 1}),
            ("facts.config", None),
            ("facts.config.loop.steps", -1),
            ("facts.config_file", 3),
            ("facts.evaluating", -1),
            ("facts.evaluating", "0"),
            ("facts.plain", [1]),
            ("facts.plain", "update"),
        ]
        if not key.startswith("facts.streams.env")
    },
    "manifest null": manifest(lambda body: b"null"),
    "manifest list": manifest(lambda body: b"[]"),
    "manifest text": manifest(lambda body: b'"text"'),
    "manifest number": manifest(lambda body: b"7"),
    "manifest empty": manifest(lambda body: b""),
    "manifest not UTF-8": manifest(lambda body: b"\xff\xfe"),
    "manifest nested 10,000 deep": manifest(lambda body: b"[" * 10_000 + b"]" * 10_000),
    "manifest open": manifest(lambda body: b'{"format": 3, "a": ' + b"[" * 10_000),
    "manifest of 400 digits": manifest(lambda body: b'{"format": ' + b"9" * 400 + b"}"),
    "manifest of 5,000 digits": manifest(lambda body: b'{"format": ' + b"9" * 5000 + b"}"),
    "manifest of a million tables": manifest(lambda body: b"[" + b"{}," * 10**6 + b"{}]"),
    "manifest of three million numbers": manifest(lambda body: b"[" + b"0.5," * 3 * 10**6 + b"1]"),
    "state empty": lambda run: write_state(run, b""),
    "state without header": lambda run: write_state(run, b"\xff" * 100),
    "state nested": lambda run: write_state(
        run, (10_008).to_bytes(8, "little") + b'{"a":' + b"[" * 10_003
    ),
    "state is a policy": lambda run: write_state(
        run, (run / "policy/agent-0.safetensors").read_bytes()
    ),
    "weights NaN": reshaped("agent/actor.layer_1.bias", lambda t: t * float("nan")),
    "weights infinite": reshaped("agent/critic_target.layer_1.bias", lambda t: t + float("inf")),
    "moments NaN": reshaped("agent/actor_optimizer.mean.layer_1.bias", lambda t: t / 0.0),
    "weights missing": without_tensor("agent/actor.layer_2.weight"),
    "weights flat": reshaped("agent/actor.layer_2.weight", Tensor.flatten),
    "weights integer": reshaped("agent/actor.layer_2.weight", Tensor.long),
    "weights of two agents": reshaped("agent/actor.layer_2.weight", lambda t: t.repeat(2, 1, 1)),
    "weights wide": reshaped("agent/actor.layer_2.weight", lambda t: t.repeat(1, 1, 9)),
    "updates missing": without_tensor("agent/updates"),
    "updates float": reshaped("agent/updates", Tensor.double),
    "tensor of no part": set_to("extra/x", ZERO),
    "tensor without part": set_to("x", ZERO),
    "tensor with escape sequence": set_to("\x1b[2J", ZERO),
    "tensor with a long name": set_to("x" * 100_000, ZERO),
    "tensor unknown to the agent": set_to("agent/x", ZERO),
    "statistics without purpose": set_to("agent/normalizer.mean", torch.zeros(1, 3)),
    "interval missing": without_tensor("interval/sums"),
    "interval wide": reshaped("interval/sums", lambda t: t.repeat(1, 2)),
    "interval NaN": reshaped("interval/sums", lambda t: t * float("nan")),
    "interval unknown": set_to("interval/x", ZERO),
    "returns missing": without_tensor("collector/returns"),
    "returns of two": set_to("collector/returns", torch.zeros(2)),
    "returns NaN": set_to("collector/returns", torch.tensor([float("nan")])),
    "lengths float": set_to("collector/lengths", ZERO),
    "last step incomplete": set_to("collector/last.rewards", ZERO),
    "last states wide": set_to("collector/last.states", torch.zeros(1, 30)),
    "last flags integer": set_to("collector/last.begins", torch.zeros(1, dtype=torch.int64)),
    "last step unknown": set_to("collector/last.x", ZERO),
    "environment missing": without_tensor("collector/env.0.life"),
    "environment of three numbers": set_to("collector/env.0.life", torch.tensor([1, 2, 3])),
    "environment seed negative": set_to("collector/env.0.life", torch.tensor([-1, 0])),
    "environment seed float": set_to("collector/env.0.life", torch.tensor([0.5, 0])),
    "environment actions wide": set_to("collector/env.0.actions", torch.zeros(9, 7)),
    "environment actions NaN": set_to("collector/env.0.actions", torch.full((9, 1), torch.nan)),
    "environment of another agent": set_to("collector/env.7.life", torch.tensor([1, 2])),
    "evaluation of no agent": set_to("evaluation/7.actor.layer_1.bias", ZERO),
    "evaluation without number": set_to("evaluation/x", ZERO),
    "evaluation incomplete": set_to("evaluation/0.actor.layer_1.bias", torch.zeros(1, 1, 8)),
    "replay buffer of another kind": set_to("replay/x", ZERO),
    "generator of PyTorch": set_to("random/cpu", torch.zeros(7, dtype=torch.uint8)),
    "generator of nothing": set_to("random/x", torch.zeros(7, dtype=torch.uint8)),
    "replay file short": rows(lambda data: data[:-4]),
    "replay file long": rows(lambda data: data + data),
    "replay file NaN": rows(lambda data: b"\x00\x00\xc0\x7f" * (len(data) // 4)),
    **{
        f"{name} is {kind}": instead(f"{NEWEST}/{name}", make)
        for name in ("manifest.json", "state.safetensors")
        for kind, make in KINDS.items()
        if kind in ("FIFO", "sparse")
    },
}
"""Changes of the newest checkpoint: the one before is used."""

TOML = {
    "empty": "",
    "null byte": "\x00",
    "not UTF-8": b"\xff\xfe\x00",
    "5,000 brackets": "a = " + "[" * 5000 + "]" * 5000,
    "100,000 open brackets": "a = " + "[" * 100_000,
    "5,000 tables": "a = " + "{a=" * 5000 + "1" + "}" * 5000,
    "5,000 dotted keys": ".".join("a" * 5000) + " = 1",
    "argument of 5,000 keys": "[environment.kwargs]\n" + ".".join("a" * 5000) + " = 1",
    "number of 5,000 digits": f"seed = {DIGITS}",
    "number of 400 digits": f"seed = {DIGITS[:400]}",
    "float of 5,000 digits": f"[agent]\ntau = {DIGITS}.0",
    "argument of 5,000 digits": f"[environment.kwargs]\ng = {DIGITS}",
    "date": "seed = 2026-11-19",
    "table twice": "[loop]\n[loop]",
    "text without end": 'seed = "',
    "megabyte of a key": "a" * 2**20 + " = 1",
    "megabytes of keys": "".join(f"a{n} = 1\n" for n in range(300_000)),
    "megabyte of text": f'seed = "{"x" * 2**20}"',
    "escape sequence": '"\\u001b[2J" = 1',
    "escape sequence in a value": 'device = "\\u001b[2J"',
    "line break in a value": 'device = "a\\nb"',
    "seed negative": "seed = -1",
    "seed text": 'seed = "1"',
    "seed float": "seed = 0.5",
    "seeds zero": "seeds = 0",
    "seeds of a billion": "seeds = 1_000_000_000",
    "seeds of a hundred thousand": "seeds = 100_000",
    "steps infinite": "[loop]\nsteps = inf",
    "steps of 30 digits": f"[loop]\nsteps = {DIGITS[:30]}",
    "replay buffer of petabytes": "[loop]\nreplay_size = 1_000_000_000_000",
    "hidden sizes of petabytes": "[agent]\nhidden_sizes = [10_000_000, 10_000_000]",
    "hidden sizes of 30 digits": f"[agent]\nhidden_sizes = [{DIGITS[:30]}]",
    "hidden sizes empty": "[agent]\nhidden_sizes = []",
    "hidden sizes text": '[agent]\nhidden_sizes = "8"',
    "hidden sizes many": f"[agent]\nhidden_sizes = {[8] * 20_000}",
    "batch of a trillion": "[agent]\nbatch_size = 1_000_000_000_000",
    "discount NaN": "[agent]\ndiscount = nan",
    "noise infinite": "[loop]\nexploration_noise = inf",
    "environment number": "environment = 3",
    "environment list": "environment = [1]",
    "environments of a billion": '[environment]\nid = "Pendulum-v1"\ncount = 1_000_000_000',
    "workers of a billion": '[environment]\nid = "Pendulum-v1"\nworkers = 1_000_000_000',
    "stack of a billion": "[environment]\nframe_stack = 1_000_000_000",
    "resize of a billion": "[environment]\nresize = 1_000_000_000",
    "argument table": "[environment.kwargs.a]\nb = 1",
    "grid number": "grid = 3",
    "grid of text": '[grid]\n"agent.tau" = ["a"]',
    "grid empty": '[grid]\n"agent.tau" = []',
    "grid of a quintillion": "[grid]\n"
    + "\n".join(
        f'"agent.{key}" = {[round(0.1 + k * 1e-4, 6) for k in range(1000)]}'
        for key in ("tau", "discount", "policy_noise", "noise_clip", "actor_learning_rate")
    )
    + '\n"agent.critic_learning_rate" = [0.1, 0.2]',
    "grid of a setting that is fixed": '[grid]\n"agent.batch_size" = [1, 2]',
    "variant number": "variant = 3",
    "variant unknown": 'variant = "x"',
    "variant of no module": 'variant = "no_such_module_here:X"',
    "variant with a table": "[variant]\nname = {a = 1}",
    "critics of a billion": '[variant]\nname = "ensemble"\ncritics = 1_000_000_000',
    "threads of a million": "threads = 1_000_000",
    "device unknown": 'device = "tpu"',
    "device of 5,000 digits": f'device = "cuda:{DIGITS}"',
    "tracker unknown": 'track = ["x"]',
    "callback unknown": 'callback = ["no_such_module_here:X"]',
    "callback of no module": 'callback = ["x"]',
    "stop text": '[stop]\nafter = "soon"',
    "stop of 5,000 digits": f'[stop]\nafter = "{DIGITS}s"',
    "unknown setting": "x = 1",
}
"""Recipes. As config.toml of a run, they may only be refused."""

RECORDS = {
    "list": "[]\n",
    "null": "null\n",
    "number of 5,000 digits": f'{{"step": {DIGITS}}}\n',
    "number of 400 digits": f'{{"kind": "train", "step": {DIGITS[:400]}, "agent": 0}}\n',
    "agent of 20 digits": '{"kind": "train", "step": 1, "agent": 99999999999999999999}\n',
    "agent of a billion": '{"kind": "train", "step": 1, "agent": 1000000000}\n',
    "agent of 18 digits": '{"kind": "train", "step": 1, "agent": 999999999999999999}\n',
    "nested": "[" * 100_000 + "\n",
    "not UTF-8": b'{"a": "\xff"}\n',
    "null bytes": b"\x00" * 1000 + b"\n",
    "kind list": '{"kind": [], "step": 1, "agent": 0}\n',
    "event list": '{"event": [], "step": 1, "time": 1}\n',
    "time text": '{"event": "start", "time": "x", "step": "y"}\n',
    "time NaN": '{"event": "start", "time": NaN, "step": NaN}\n',
    "time of 400 digits": f'{{"event": "start", "time": {DIGITS[:400]}, "step": 1}}\n',
    "return NaN": '{"kind": "evaluation", "step": 1, "agent": 0, "mean_return": NaN}\n',
    "return of 300 digits": (
        f'{{"kind": "evaluation", "step": 1, "agent": 0, "mean_return": {DIGITS[:300]}}}\n'
    ),
    "return text": '{"kind": "evaluation", "step": 1, "agent": 0, "mean_return": "x"}\n',
    "deviation list": '{"kind":"evaluation","step":1,"agent":0,"mean_return":1,"std_return":[]}\n',
    "loss text": '{"kind": "train", "step": 1, "agent": 0, "critic_loss": {"a": []}}\n',
    "info list": '{"kind": "train", "step": 1, "agent": 0, "info": []}\n',
    "info with escape sequence": '{"kind":"train","step":1,"agent":0,"info":{"\\u001b[2J":1}}\n',
    "info nested": '{"kind": "train", "step": 1, "agent": 0, "info": {"a": {"b": 1}}}\n',
    "step negative": '{"kind": "train", "step": -1, "agent": 0}\n',
    "step huge": '{"kind":"evaluation","step":9000000000000000000,"agent":0,"mean_return":1}\n',
    "step float": '{"kind": "train", "step": 1e300, "agent": 0}\n',
    "megabytes of one line": '{"a": "' + "x" * 2**22 + '"}\n',
    "frozen agent text": '{"event": "frozen", "step": 1, "agent": "0"}\n',
    "warning with escape sequence": '{"event": "warning", "step": 1, "message": "\\u001b[2J"}\n',
    "message list": '{"event": "warning", "step": 1, "message": [[]]}\n',
}
"""Lines of metrics.jsonl and events.jsonl."""

CURVES = {
    "empty": "",
    "other columns": "a,b\n1,2\n",
    "text": "agent,seed,step,mean_return,std_return\nx,x,x,x,x\n",
    "number of 5,000 digits": f"agent,seed,step,mean_return,std_return\n{DIGITS},0,1,1,1\n",
    "negative": "agent,seed,step,mean_return,std_return\n-1,0,1,1,1\n",
    "field of megabytes": "agent,seed,step,mean_return,std_return\n0,0,1,1," + "1" * 2**23,
    "NaN": "agent,seed,step,mean_return,std_return\n0,0,1,nan,inf\n",
    "too few": "agent,seed,step,mean_return,std_return\n0,0\n",
    "null bytes": b"\x00" * 100,
    "not UTF-8": b"\xff\xfe,",
}

COLUMNS = "env,step,mean_return,std_return,seeds\n"
REFERENCES = {
    "empty": "",
    "other columns": "a,b\n1,2\n",
    "text": COLUMNS + "Pendulum-v1,x,x,x,x\n",
    "NaN": COLUMNS + "Pendulum-v1,nan,nan,nan,nan\n",
    "number of 5,000 digits": COLUMNS + f"Pendulum-v1,1,{DIGITS},1,5\n",
    "infinite": COLUMNS + "Pendulum-v1,inf,inf,inf,5\n",
    "seeds zero": COLUMNS + "Pendulum-v1,1,1,1,0\n",
    "seeds of 300 digits": COLUMNS + f"Pendulum-v1,1,1,1,{DIGITS[:300]}\n",
    "too few": COLUMNS + "Pendulum-v1\n",
    "null bytes": b"\x00" * 100,
    "not UTF-8": b"\xff\xfe,",
}


def only_curves(content: str | bytes) -> Change:
    """A stored result: settings and curves.csv."""

    def apply(run: Path) -> None:
        for name in LINES:
            (run / name).unlink()
        shutil.rmtree(run / "checkpoints")
        text("curves.csv", content)(run)

    return apply


def move(name: str) -> Change:
    return lambda run: run.rename(run.parent / name)


def add_folder(name: str) -> Change:
    return lambda run: shutil.copytree(run / NEWEST, run / "checkpoints" / name)


def all_cases() -> dict[str, Case]:
    cases = {
        f"checkpoint: {name}": Case(change, RESUME, "older") for name, change in CHECKPOINTS.items()
    }
    for name, content in TOML.items():
        recipe = text("../recipe.toml", content)
        cases[f"recipe: {name}"] = Case(recipe, TRAIN, "refused")
        for words in (RESUME, REPORT, PLOT):
            cases[f"settings, {words[0]}: {name}"] = Case(settings(content), words, "handled")
    for name, line in RECORDS.items():
        for file in LINES:
            cases[f"{file}: {name}"] = Case(appended(file, line), REPORT, "handled")
        both = lambda run, line=line: [appended(file, line)(run) for file in LINES]  # noqa: E731
        cases[f"records, plot: {name}"] = Case(both, PLOT, "handled")
        cases[f"records, resume: {name}"] = Case(both, RESUME, "handled")
    for name, content in CURVES.items():
        cases[f"curves: {name}"] = Case(only_curves(content), PLOT, "handled")
    for name, content in REFERENCES.items():
        words = (*PLOT, "--reference", "reference.csv")
        cases[f"reference: {name}"] = Case(text("../reference.csv", content), words, "handled")
    for name, change in CHECKPOINTS.items():
        cases[f"checkpoint, doctor: {name}"] = Case(change, DOCTOR, "checked")
    for kind, make in KINDS.items():
        for file in (*LINES, f"{NEWEST}/manifest.json", "replay/000000200.rows", POLICY):
            change = instead(file, make)
            cases[f"{file} is {kind}: doctor"] = Case(change, DOCTOR, "checked")
            for words in (COPY, BACK):
                cases[f"{file} is {kind}: {words[0]} now or at 100"] = Case(
                    change, words, "handled"
                )
        for file in ("config.toml", *LINES):
            for words in (RESUME, REPORT, PLOT):
                cases[f"{file} is {kind}: {words[0]}"] = Case(instead(file, make), words, "handled")
        for file in (POLICY, "policy/agent-0-last.safetensors"):
            cases[f"{file} is {kind}: resume"] = Case(instead(file, make), RESUME, "handled")
        cases[f"policy is {kind}"] = Case(instead(POLICY, make), EVALUATE, "refused")
        cases[f"recipe is {kind}"] = Case(instead("../recipe.toml", make), TRAIN, "refused")
        reference = instead("../reference.csv", make)
        words = (*PLOT, "--reference", "reference.csv")
        cases[f"reference is {kind}"] = Case(reference, words, "refused")
        cases[f"replay file is {kind}"] = Case(
            instead("replay/000000200.rows", make), RESUME, "handled"
        )
    for name in ("²00000300", "0000003_0", "000000300 ", "-00000300", "٣٠٠٠٠٠٠٠٠"):
        cases[f"checkpoint folder {name}"] = Case(add_folder(name), RESUME, "used")
    for words in (RESUME, REPORT, PLOT, EVALUATE):
        own = tuple("\udcff\x1b[2Jrun" if word == "run" else word for word in words)
        cases[f"path not UTF-8: {words[0]}"] = Case(move("\udcff\x1b[2Jrun"), own, "used")
        missing = tuple("no\udcff\x1b[2J" if word == "run" else word for word in words)
        cases[f"missing path: {words[0]}"] = Case(lambda run: None, missing, "refused")
        long = tuple("a" * 5000 if word == "run" else word for word in words)
        cases[f"long path: {words[0]}"] = Case(lambda run: None, long, "refused")
    return cases
