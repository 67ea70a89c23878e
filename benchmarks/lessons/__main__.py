"""Make and run the lessons: python -m benchmarks.lessons [NUMBER …] [--build]

Runs every lesson twice, with the exercise solved and unsolved, stores what the unsolved one shows
for its page, and prints a table of times. `--build` only makes the notebooks.
"""

import argparse
import sys

from benchmarks.lessons.execute import Seconds, execute, exercise_output, solution_of, store_outputs
from benchmarks.lessons.notebook import Page, pages, write_notebook


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("numbers", nargs="*", type=int, help="lessons; default: all")
    parser.add_argument("--build", action="store_true", help="only make the notebooks")
    arguments = parser.parse_args()
    chosen = [p for p in pages() if p.number in arguments.numbers or not arguments.numbers]
    for page in chosen:
        write_notebook(page)
    if arguments.build:
        return 0
    print(f"{'lesson: wall time (CPU time)':<44} {'unsolved':>15} {'solved':>15}")
    times = [run_lesson(page) for page in chosen]
    for name, total in (("unsolved", 0), ("solved", 1)):
        wall, cpu = (sum(own[total][kind] for own in times) for kind in (0, 1))
        print(f"all, {name}: {wall:.0f} s ({cpu:.0f} s)")
    return 0


def run_lesson(page: Page) -> tuple[Seconds, Seconds]:
    """Run a lesson unsolved and solved; stop if the checker is wrong about one of them."""
    unsolved, first = execute(page)
    solved, second = execute(page, solution_of(page))
    for notebook, begin in ((unsolved, "Not yet."), (solved, "Right.")):
        if not (answer := exercise_output(notebook)).startswith(begin):
            raise SystemExit(f"Lesson {page.number}: expected {begin!r}, the checker says {answer}")
    store_outputs(page, unsolved, {"unsolved": first, "solved": second})
    shown = [f"{own.wall:.0f} s ({own.cpu:.0f} s)" for own in (first, second)]
    print(f"{page.number:>2} {page.title:<41} {shown[0]:>15} {shown[1]:>15}", flush=True)
    return first, second


if __name__ == "__main__":
    sys.exit(main())
