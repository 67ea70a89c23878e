"""Log metrics for TensorBoard: `tensorboard --logdir runs`."""

from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

from td3.integrations import scalars
from td3.training.metrics import Record


class TensorBoard:
    """Writes scalars into `tensorboard/` in the run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder / "tensorboard")
        self.writer = SummaryWriter(self.folder)

    def write(self, record: Record) -> None:
        if record["kind"] == "resumed":  # later steps will be repeated
            self.writer.close()
            self.writer = SummaryWriter(self.folder, purge_step=record["step"] + 1)
        elif record["kind"] in ("train", "evaluation"):
            for name, value in scalars(record).items():
                self.writer.add_scalar(name, value, record["step"])

    def close(self) -> None:
        self.writer.close()
