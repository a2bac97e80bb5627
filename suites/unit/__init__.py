"""Unit tests, laid out like the packages they test."""
