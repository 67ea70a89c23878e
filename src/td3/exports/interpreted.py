"""The formats that interpret a program: NumPy and JavaScript, one file each."""

from pathlib import Path

from td3.exports import runtime
from td3.exports.pack import program_json
from td3.exports.program import Program

TEMPLATES = Path(__file__).parent / "templates"
LAST_LINES = """
PROGRAM = {program!r}

if __name__ == "__main__":
    sys.exit(main())
"""


def write_numpy(program: Program) -> dict[str, str]:
    """policy.py: the source of `runtime.py` and the program."""
    source = Path(runtime.__file__).read_text(encoding="utf-8")
    return {"policy.py": source + LAST_LINES.format(program=program_json(program))}


def write_js(program: Program) -> dict[str, str]:
    """policy.mjs: the template of that name and the program."""
    source = (TEMPLATES / "policy.mjs").read_text(encoding="utf-8")
    return {"policy.mjs": source.replace("@PROGRAM@", program_json(program))}
