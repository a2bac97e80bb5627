"""Times a network of spiking neurons on several devices, in one process or in several, and computes how it scales."""
