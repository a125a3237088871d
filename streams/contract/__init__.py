"""The contract that others build on, as JSON Schemas and an AsyncAPI document, made from the wire types."""
