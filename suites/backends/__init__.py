"""Registers the built-in backends, in the order in which tables show them."""

# isort: skip_file
from suites.backends import jnp as jnp
from suites.backends import numba_cpu as numba_cpu
from suites.backends import native as native
from suites.backends import late_languages as late_languages
from suites.backends import cuda_raw as cuda_raw
from suites.backends import pallas as pallas
from suites.backends import vendor_calls as vendor_calls
from suites.backends import host_libraries as host_libraries
from suites.backends import cupy_library as cupy_library
from suites.backends import brainevent_library as brainevent_library
