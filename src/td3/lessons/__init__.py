"""Lessons on the fifteen steps: show the real code, check an exercise, keep the progress."""

from td3.lessons.checking import Feedback, check, feedback, hint
from td3.lessons.source import show

__all__ = ["Feedback", "check", "feedback", "hint", "show"]
