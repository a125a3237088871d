"""The worker: everything wired together and run in Faust."""
