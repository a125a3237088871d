"""Recordings: lookups kept with the hits they were answered from, to be replayed and compared."""
