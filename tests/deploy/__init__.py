"""What lies in deploy/ works, and says what the code says."""
