"""What stands on the topics: requests and their rules, results, dead letters."""
