"""Describes plain JAX code as a language: the reference that kernels of other languages are compared with."""

from bridge.languages.language import Language, Standing

LANGUAGE = Language("jnp", dict.fromkeys(("cpu", "cuda", "tpu"), Standing.REFERENCE))
