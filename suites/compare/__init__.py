"""Times two revisions in interleaved processes, or compares two recorded runs."""
