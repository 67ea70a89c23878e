"""Checks for variants of your own: `td3.testing.check_variant(MyTD3)`."""

from td3.testing.variant import CheckReport, VariantError, check_variant

__all__ = ["CheckReport", "VariantError", "check_variant"]
