"""Saying in a few words what is wrong with a value and what is allowed."""

from __future__ import annotations

import re

from pydantic_core import ErrorDetails

_CLASS_NAME = re.compile(r" or instance of \w+")


def complaint(detail: ErrorDetails) -> str:
    """Return one of pydantic's findings as half a sentence: `must be greater than or equal to 1`."""
    message = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    message = _CLASS_NAME.sub("", message.replace("Input should", "must", 1)).replace("dictionary", "object")
    return message[:1].lower() + message[1:]
