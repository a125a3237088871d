"""Recordings answered again: frozen, live, or sent to a topic."""
