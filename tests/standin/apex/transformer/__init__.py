"""The part that Apex removed in January 2026; its refs of before still have it."""
