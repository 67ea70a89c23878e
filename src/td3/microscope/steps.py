"""The fifteen steps in words, with the source that an agent's class executes for each."""

import inspect
from pathlib import Path
from typing import Any, NamedTuple

from td3.algorithm.agent import TD3
from td3.algorithm.seams import Seams
from td3.algorithm.state import AgentState
from td3.lessons import source

PACKAGE = source.SOURCE


class Step(NamedTuple):
    """One step, as the page explains it."""

    title: str
    words: str
    equation: str
    """With <var>, <sub> and <sup>."""
    methods: tuple[str, ...] = ()
    """What a variant may override to replace it."""
    code: tuple[str, str] | None = None
    """File and function; None: the lines with the comment of this step."""


STEPS = {
    1: Step(
        "Replay buffer",
        "Every transition that the agent ever made, up to the size of the buffer, is stored. Old "
        "ones stay useful: TD3 is off-policy.",
        "<var>D</var> = {(<var>s</var>, <var>s′</var>, <var>a</var>, <var>r</var>, <var>d</var>)}",
        ("watch",),
        ("algorithm/replay.py", "ReplayBuffer.append"),
    ),
    2: Step(
        "Actor and its target",
        "The actor maps a state to the action that it considers best. Its target is a copy that "
        "follows slowly.",
        "<var>a</var> = <var>π</var>(<var>s</var>)",
        ("make_actor", "observe"),
        ("algorithm/networks.py", "Actor.forward"),
    ),
    3: Step(
        "Twin critics and their targets",
        "Two networks that share nothing estimate the return after an action. Because their errors "
        "differ, the smaller of both helps.",
        "<var>Q</var><sub>1</sub>(<var>s</var>, <var>a</var>), "
        "<var>Q</var><sub>2</sub>(<var>s</var>, <var>a</var>)",
        ("critics", "make_critic"),
        ("algorithm/networks.py", "Critic.forward"),
    ),
    4: Step(
        "Sample a batch",
        "The update learns from random transitions of many episodes, old and new. These are the "
        "ones that the run draws next from this checkpoint.",
        "(<var>s</var>, <var>s′</var>, <var>a</var>, <var>r</var>, <var>d</var>) ~ <var>D</var>",
        ("prepare", "priorities", "replay_class"),
    ),
    5: Step(
        "The next action",
        "What would the agent do next? The target actor answers for every next state. It moves "
        "slowly, so the critics learn towards something that nearly stands still.",
        "<var>a′</var> = <var>π</var><sub>target</sub>(<var>s′</var>)",
        ("observe_target", "target_action"),
    ),
    6: Step(
        "Clipped noise",
        "Each next action is moved a little at random, at most by noise_clip, and kept inside the "
        "action range. The critics then learn an average over similar actions, and a narrow wrong "
        "peak counts less.",
        "<var>ã</var> = clip(<var>a′</var> + clip(<var>σε</var>, −<var>c</var>, <var>c</var>), "
        "−1, 1), <var>ε</var> ~ N(0, 1)",
        ("target_action", "draw_noise", "own_numbers"),
    ),
    7: Step(
        "Both target critics",
        "Both target critics say what the smoothed action is worth. Over all actions, each critic "
        "is a landscape.",
        "<var>q</var><sub>i</sub> = <var>Q</var><sub>i, target</sub>(<var>s′</var>, <var>ã</var>)",
        ("make_critic", "target_q"),
    ),
    8: Step(
        "The smaller value",
        "An actor seeks out actions that look too good. Only what both critics call good counts.",
        "<var>q</var> = min(<var>q</var><sub>1</sub>, <var>q</var><sub>2</sub>)",
        ("combine", "target_q"),
    ),
    9: Step(
        "The Bellman target",
        "The reward now, plus the discounted value of what follows. After a terminal state nothing "
        "follows. The target is a constant: no gradient flows through it.",
        "<var>y</var> = <var>r</var> + (1 − <var>d</var>) <var>γ</var> <var>q</var>",
        ("target_q",),
    ),
    10: Step(
        "The critics' own values",
        "Both critics say what they believe about the action that was really taken.",
        "<var>Q</var><sub>i</sub>(<var>s</var>, <var>a</var>)",
        ("observe", "make_critic"),
    ),
    11: Step(
        "The critic loss",
        "Both critics are compared with the same target. Points on the line are right.",
        "<var>L</var> = mean (<var>Q</var><sub>1</sub> − <var>y</var>)<sup>2</sup> + "
        "mean (<var>Q</var><sub>2</sub> − <var>y</var>)<sup>2</sup>",
        ("critic_loss",),
        ("algorithm/agent.py", "TD3.critic_loss"),
    ),
    12: Step(
        "The critic step",
        "Adam moves every weight of both critics a little, in a direction averaged over many "
        "updates. Over many updates the values come closer to the targets; one step may also "
        "move them away.",
        "<var>θ</var><sub>Q</sub> ← Adam(<var>θ</var><sub>Q</sub>, ∇<var>L</var>)",
        ("minimize", "make_optimizer"),
        ("algorithm/trained.py", "minimize"),
    ),
    13: Step(
        "The actor step",
        "On every second update the actor takes a step up the first critic's landscape. The delay "
        "gives the critics time to become accurate first.",
        "<var>θ</var><sub>π</sub> ← Adam(<var>θ</var><sub>π</sub>, "
        "−∇ mean <var>Q</var><sub>1</sub>(<var>s</var>, <var>π</var>(<var>s</var>)))",
        ("actor_loss", "due", "minimize"),
        ("algorithm/agent.py", "TD3.actor_loss"),
    ),
    14: Step(
        "The actor's target follows",
        "Polyak averaging moves the target by a small share of its distance.",
        "<var>θ</var><sub>target</sub> ← (1 − <var>τ</var>) <var>θ</var><sub>target</sub> + "
        "<var>τ</var> <var>θ</var>",
        ("move_target",),
        ("algorithm/trained.py", "Trained.move_target"),
    ),
    15: Step(
        "The critics' targets follow",
        "The same for both critics, so that the next targets move slowly too.",
        "<var>θ</var><sub>target</sub> ← (1 − <var>τ</var>) <var>θ</var><sub>target</sub> + "
        "<var>τ</var> <var>θ</var>",
        ("move_target",),
    ),
}


def describe_steps(kind: type[TD3]) -> list[dict[str, Any]]:
    """The steps with the source of td3, and of what a variant overrides."""
    found = []
    for number, own in STEPS.items():
        path, code = source.step(number) if own.code is None else source.function(*own.code)
        names = own.methods + (("update",) if number > 4 else ())
        found.append(
            {
                "number": number,
                "title": own.title,
                "words": own.words,
                "equation": own.equation,
                "code": excerpt(path, code),
                "own": [text for name in names if (text := override(kind, name))],
            }
        )
    return found


def excerpt(path: Path, code: str) -> dict[str, Any]:
    """Lines of a file of td3 and where they are."""
    first = code.splitlines()[0].strip()
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    file = path.relative_to(PACKAGE.parent).as_posix()
    return {"file": file, "line": lines.index(first) + 1, "text": code}


def override(kind: type[TD3], name: str) -> dict[str, Any] | None:
    """The source of a method that a variant overrides; None if it is TD3's own."""
    base = next((own for own in kind.__mro__ if name in vars(own)), None)
    if base is None or base in (TD3, Seams, AgentState):
        return None
    what = f"{base.__qualname__}.{name}"
    value = vars(base)[name]
    function = value.fget if isinstance(value, property) else value
    if not inspect.isfunction(function):
        return {"file": base.__module__, "line": 0, "name": what, "text": f"{name} = {value!r}"}
    try:
        lines, line = inspect.getsourcelines(function)
    except (OSError, TypeError):  # defined in a console
        return {"file": base.__module__, "line": 0, "name": what, "text": ""}
    file = Path(inspect.getsourcefile(function) or base.__module__)
    inside = file.is_relative_to(PACKAGE.parent)
    shown = file.relative_to(PACKAGE.parent).as_posix() if inside else file.name
    text = inspect.cleandoc("\n" + "".join(lines))
    return {"file": shown, "line": line, "name": what, "text": text}
