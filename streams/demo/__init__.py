"""The demo: the whole stage on one machine, with nothing to install or download beside the package."""
