"""Run folders → numbers, curves, tables and pages."""
