"""The pictures of README and pages that are made from real runs or from the code."""
