"""Runs calls on arrays that are split over the devices of a mesh: each device runs the kernel on its part."""
