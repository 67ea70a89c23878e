"""One session of a run, new or continued: open its folder, build its training, run the loop."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

import torch

from td3.config import Config
from td3.config.variants import load_variant
from td3.environments.environment import Environment
from td3.environments.watch import Watch, tell
from td3.errors import RunStopped, UserError, short_traceback
from td3.files import check_file, occupy_standard_streams
from td3.integrations import make_tracker
from td3.launch.assembly import assemble
from td3.launch.progress import Display
from td3.launch.stop_messages import describe_early_stop, describe_full_gpu, describe_stop
from td3.launch.variant_source import code_facts
from td3.run import checkpoint
from td3.run.folder import (
    FORMAT,
    check_entries,
)
from td3.run.lock import lock_run
from td3.run.memory import IMAGES_FILE, describe_replay
from td3.signals import StopRequest
from td3.training.callbacks import Callback, Callbacks, check_callback, load_callback
from td3.training.loop import Training
from td3.training.metrics import Guarded, Sink
from td3.training.population import Population
from td3.training.stop_conditions import make_stop_conditions
from td3.training.user_classes import describe_own_error

OnTraining = Callable[[Training], None]


@contextmanager
def open_training(
    config: Config,
    folder: Path,
    display: Display | None = None,
    replay_place: str = "",
    first: Environment | None = None,
    callbacks: Sequence[Callback] = (),
    sinks: Iterable[Sink] = (),
    kind: type[Training] = Training,
    population_kind: type[Population] = Population,
) -> Iterator[Training]:
    """Lock a run folder and build its training, with trackers, display and callbacks.

    `first` is an environment of this configuration that was already made; training takes it over.
    `sinks` get its records. `kind` and `population_kind`: subclasses to use.
    """
    with ExitStack() as stack:
        occupy_standard_streams()
        lock = stack.enter_context(lock_run(folder))
        stack.enter_context(Watch(config.environment.patience, lambda text: report(text)))
        check_entries(folder)
        checkpoint.check_entries(folder)
        check_file(folder / IMAGES_FILE)
        all_callbacks = make_callbacks(config, callbacks)
        all_sinks = list(sinks)
        training: Training | None = None

        def report(problem: str) -> None:
            message = describe_stop(training, RunStopped(problem)) if training else problem
            tell(message)
            if training:
                note_stop(training, message)

        def warn(message: str) -> None:
            assert training
            training.recorder.warn(training.step, message)

        for name in config.track:
            all_sinks.append(Guarded(name, make_tracker(name, config, folder), warn))
            stack.callback(all_sinks[-1].close)
        show_phase(display, "making networks, replay buffer and environments")
        with own_errors(config):
            training = assemble(
                config, folder, all_sinks, replay_place, first, kind, population_kind
            )
        training.check_lock = lock.check
        training.callbacks = all_callbacks
        stack.callback(training.close)
        if display:
            shown = Guarded("The display", display, warn)
            all_sinks.append(shown)
            training.on_step = partial(shown.attempt, display.step)
        show_arrangement(training)
        yield training


@contextmanager
def own_errors(config: Config) -> Iterator[None]:
    """Turn an exception in the constructors of a variant into UserError."""
    try:
        yield
    except (UserError, RunStopped, OSError):
        raise
    except Exception as error:
        variant = load_variant(config.variant.name)
        if own := describe_own_error(error, (variant, variant.replay_class)):
            raise UserError(f"{own}.") from error
        raise


def make_callbacks(config: Config, given: Sequence[Callback]) -> Callbacks:
    """The callbacks of a run: objects from Python, classes in config.toml, stop conditions."""
    own = [check_callback(callback) for callback in given]
    named = [load_callback(path) for path in config.callback]
    return Callbacks([*own, *named, *make_stop_conditions(config.stop)])


def show_phase(display: Display | None, doing: str) -> None:
    """Show what happens before the first step, if there is a display."""
    if display:
        display.phase(doing)


def show_arrangement(training: Training) -> None:
    """Show who steps the environments and where the replay buffers are, unless it is obvious."""
    recorder, environments = training.recorder, training.environments
    if len(environments.states) > 1:
        recorder.show({"kind": "environments", "message": environments.description})
    if training.config.device != "cpu" or training.replay.stores_frames:
        recorder.show({"kind": "environments", "message": f"Replay: {replay_facts(training)}"})
    if environments.warning:
        recorder.show({"kind": "remark", "message": environments.warning})


def replay_facts(training: Training) -> str:
    """Size and place of the replay buffers, in words."""
    return describe_replay(training.config, training.environments.task, training.replay_place)


def run_loop(training: Training, event: str, display: Display | None = None) -> int:
    """Train until the end, a stop request or an error; returns an exit code."""
    recorder = training.recorder
    facts = {"environments": training.environments.description, "replay": replay_facts(training)}
    recorder.event(event, step=training.step, format=FORMAT, **facts)
    if remark := training.environments.warning:
        recorder.event("warning", step=training.step, message=remark)
    if training.config.loop.random_steps >= (steps := training.config.loop.steps):
        message = f"All {steps:,} steps are random (loop.random_steps): the policy never acts."
        recorder.warn(training.step, message)
    show_phase(display, "" if training.step else "evaluating the untrained policy")
    try:
        with StopRequest(display.stopping if display else lambda: False) as stop:
            training.loop(stop)
    except torch.OutOfMemoryError as error:
        note_stop(training, str(error))
        raise RunStopped(describe_full_gpu(training)) from error
    except UserError:
        raise
    except Exception as error:
        own = describe_own_error(error, map(type, changeable_parts(training)))
        if not own and not isinstance(error, RunStopped | OSError):
            raise
        cause = short_traceback(error.__cause__ or error)
        note_stop(training, str(error), traceback=cause)
        raise RunStopped(describe_stop(training, error, own)) from error
    if training.finished and training.evaluations.step is None:
        recorder.event("finish", step=training.step)
        return 0
    if reason := training.callbacks.reason:
        recorder.event("stop", step=training.step, reason=reason)
        recorder.show({"kind": "stopped", "message": describe_early_stop(training)})
        return 0
    recorder.event("stop", step=training.step)
    return stop.exit_code


def note_stop(training: Training, message: str, **facts: object) -> None:
    """Write into events.jsonl why a run stops, unless an environment closed that file."""
    with suppress(OSError):
        training.recorder.event("stop", step=training.step, message=message, **facts)


def changeable_parts(training: Training) -> list[object]:
    """The objects whose classes a user may replace; the agent is first."""
    agent = training.agent
    parts: list[object] = [agent, training.replay]
    for network in agent.trained.values():
        parts += [network.online, network.optimizer]
    return parts + [part for part in (agent.normalizer, training.collector.exploration) if part]


def training_code(training: Training) -> dict[str, str]:
    """Which code of the user this training executes; empty for plain TD3."""
    return code_facts(training.config.variant.name, changeable_parts(training))
