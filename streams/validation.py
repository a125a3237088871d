"""Saying in a few words what is wrong with a value and what is allowed."""

from __future__ import annotations

from pydantic_core import ErrorDetails


def complaint(detail: ErrorDetails) -> str:
    """Gives one of pydantic's findings as half a sentence: `must be greater than or equal to 1`."""
    message = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    message = message.replace("Input should", "must", 1)
    return message[:1].lower() + message[1:]
