"""A comparison for people and for programs: terminal, JSON, JUnit and HTML."""
