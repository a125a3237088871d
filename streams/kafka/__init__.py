"""Kafka: connections, topics, reading and publishing records."""
