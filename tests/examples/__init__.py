"""What the examples on the pages need beyond the product."""
