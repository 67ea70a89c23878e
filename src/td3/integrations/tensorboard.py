"""Metrics for TensorBoard: `tensorboard --logdir runs`."""

from pathlib import Path

from td3.errors import UserError
from td3.integrations import scalars
from td3.metrics import Record


class TensorBoard:
    """Writes scalars below the run folder."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UserError(
                "--track tensorboard needs an extra: pip install 'td3[tensorboard]'."
            ) from error
        self.writer = SummaryWriter(str(folder / "tensorboard"))

    def write(self, record: Record) -> None:
        if "step" in record:
            for name, value in scalars(record).items():
                self.writer.add_scalar(name, value, record["step"])

    def close(self) -> None:
        self.writer.close()
