"""Triton as a language: kernels that the user calls through ``jax_triton``, on CUDA."""

from bridge.languages.language import Language, Standing

LANGUAGE = Language("triton", {"cuda": Standing.REGULAR})
