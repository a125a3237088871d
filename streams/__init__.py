"""The lookup stage on Kafka: settings, wire types, the Faust agent and the commands."""
