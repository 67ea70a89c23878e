"""Experiment trackers, one file each, imported only on request."""

from pathlib import Path

from td3.config import Config
from td3.errors import UserError, first_line
from td3.files import check_folder
from td3.training.metrics import Record, Sink


def make_tracker(name: str, config: Config, folder: Path) -> Sink:
    """The sink for a name given to `--track`."""
    check_folder(folder / name)  # each writes to a folder of its own name
    try:
        if name == "tensorboard":
            from td3.integrations.tensorboard import TensorBoard

            return TensorBoard(folder)
        from td3.integrations.wandb import WeightsAndBiases

        return WeightsAndBiases(config, folder)
    except ImportError as error:
        message = f"--track {name} needs an extra: pip install 'td3[{name}]'"
        raise UserError(message) from error
    except Exception as error:  # for example W&B without a key or a network
        raise UserError(f"--track {name} could not start: {first_line(error)}.") from error


def scalars(record: Record) -> dict[str, float]:
    """The numbers of a record, named by kind, settings and seed."""
    kind, settings = record["kind"], record.get("settings", {})
    own = "".join(f"{key.partition('.')[2]}-{value}/" for key, value in settings.items())
    numbers = record | {f"info/{name}": value for name, value in record.get("info", {}).items()}
    return {
        f"{kind}/{name}/{own}seed-{record['seed']}": float(value)
        for name, value in numbers.items()
        if isinstance(value, int | float)
        and not isinstance(value, bool)
        and name not in ("step", "agent", "seed")
    }
