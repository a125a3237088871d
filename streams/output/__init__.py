"""What commands write: files that are whole or as they were, and text that any terminal can show."""
