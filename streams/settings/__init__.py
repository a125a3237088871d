"""The settings: their model, where they come from, and how they are loaded."""
