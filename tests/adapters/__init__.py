"""Each adapter against its contract, and what only it does."""
