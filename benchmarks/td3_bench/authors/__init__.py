"""Train with the files of the TD3 authors' repository, github.com/sfujim/TD3.

The files are not part of this repository. Give a folder that contains TD3.py and utils.py.
"""

import importlib.util
import sys
from pathlib import Path
from typing import Any

from td3.errors import UserError


def load_module(source: Path, name: str) -> Any:
    """Import a file of the authors' repository."""
    path = source / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"authors_{name}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise UserError(f"{path} does not exist. Clone github.com/sfujim/TD3 and name its folder.")
    if spec.name not in sys.modules:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[spec.name] = module
    return sys.modules[spec.name]
