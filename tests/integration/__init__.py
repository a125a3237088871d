"""Tests on real parts."""
