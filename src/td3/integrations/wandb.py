"""Log metrics to Weights & Biases. Without a network set WANDB_MODE=offline."""

import secrets
from pathlib import Path

import wandb

from td3.config import Config, to_dict
from td3.files import replace_file
from td3.integrations import scalars
from td3.training.metrics import Record


class WeightsAndBiases:
    """Logs one W&B run; its files are in the run folder."""

    def __init__(self, config: Config, folder: Path) -> None:
        identity = folder / "wandb-id"  # a resumed run continues the same W&B run
        if not identity.exists():
            replace_file(identity, secrets.token_hex(8).encode())
        self.run = wandb.init(
            project="td3",
            name=folder.name,
            id=identity.read_text(encoding="utf-8"),
            resume="allow",
            dir=str(folder),
            config=to_dict(config),
            settings=wandb.Settings(silent=True, console="off", disable_git=True),
        )
        # W&B's own step counter cannot go back, but evaluations on a GPU arrive late.
        self.run.define_metric("*", step_metric="step")
        # All agents have a record of the same step, but W&B accepts each step once.
        self.pending: dict[str, float] = {}
        self.step = 0

    def write(self, record: Record) -> None:
        if record["kind"] not in ("train", "evaluation"):
            return
        if record["step"] != self.step:
            self.flush()
            self.step = record["step"]
        self.pending |= scalars(record)

    def flush(self) -> None:
        if self.pending:
            self.run.log(self.pending | {"step": self.step})
            self.pending = {}

    def close(self) -> None:
        self.flush()
        self.run.finish()
