"""Times two revisions side by side, or compares two recorded runs."""
