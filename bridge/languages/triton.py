"""Describes Triton as a language: the user calls kernels through ``jax_triton``, on CUDA."""

from bridge.languages.language import Language, Standing

LANGUAGE = Language("triton", {"cuda": Standing.REGULAR})
