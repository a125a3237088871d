"""What the README's examples need beyond the product."""
