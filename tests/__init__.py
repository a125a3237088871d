"""Tests of the lookup stage."""
