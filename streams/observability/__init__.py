"""What a worker shows of itself: metrics, liveness and readiness, and traces."""
