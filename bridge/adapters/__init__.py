"""The interfaces of other libraries over the bridge's own, so that their code runs with one import changed."""
