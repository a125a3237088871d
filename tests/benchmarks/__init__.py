"""Figures of the README, and the commands that reproduce them."""
