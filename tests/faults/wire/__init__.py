"""The wire as strangers use it: record batches right and wrong in any field, and who sends them."""
