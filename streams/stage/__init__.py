"""The stage: answers requests in flight and acknowledges them in order."""
