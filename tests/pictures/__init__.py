"""The README's pictures that are made from real runs."""
