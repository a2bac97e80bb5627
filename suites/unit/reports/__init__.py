"""Unit tests of `reports`, one module per module; none needs a device."""
