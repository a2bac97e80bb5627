"""The code of Warp kernels for GPUs, compiled without one: loads and stores of 16 bytes, and no detours to them."""

import re

import pytest

from bridge.languages.warp.generated import generated
from suites.backends.warp import STREAM_THREADS, wp
from suites.backends.warp_rows import KEPT
from suites.ops import operators
from suites.ops.csr_matmat.warp import csr_matmat_fours_warp, groups_of
from suites.ops.matvec.warp import matvec_warp
from suites.ops.softmax.warp import softmax_warp

STREAMS = {  # vectors that a thread loads, and stores
    "lif_step": (2, 2),
    "sigmoid": (1, 1),
}
ROWS = {"softmax": (softmax_warp, KEPT, KEPT), "matvec": (matvec_warp, 2 * KEPT, 0)}


def ptx_of(kernel, block_dim, folder):
    """The code of the kernel's forward launch, as the bridge has Warp generate it."""
    private = generated(kernel, "cuda", block_dim).kernel
    private.module.kernels[private.key] = private  # the bridge compiles a kernel when Warp launches it
    (path,) = wp.compile_aot_module(private.module, arch=90, module_dir=folder, use_ptx=True)
    (code,) = re.findall(r"\.entry \w+_forward\(.*?^\{(.*?)^\}", path.read_text(), re.MULTILINE | re.DOTALL)
    return code


def moves(code, kind):
    """How many instructions of the code load or store 16 bytes, and how many of them fewer."""
    found = re.findall(rf"{kind}\.global(?:\.nc)?\.(v[24]\.)?\w(\d+)", code)
    sizes = [int(bits) // 8 * int((width or "v1.")[1]) for width, bits in found]
    return sizes.count(16), len(sizes) - sizes.count(16)


@pytest.mark.parametrize("name", STREAMS)
def test_a_thread_of_a_stream_moves_vectors(name, tmp_path):
    (kernel,) = (k for b, k in operators()[name].kernels.items() if b.id == "warp_tile")
    code = ptx_of(kernel.kernel("float32"), STREAM_THREADS, tmp_path)
    assert (moves(code, "ld")[0], moves(code, "st")[0]) == STREAMS[name]
    assert not re.search(r"\b(div|rem)\.[us]\d+", code)  # as the index of a thread would need
    assert ".local" not in code


@pytest.mark.parametrize("name", ROWS)
def test_a_thread_keeps_its_part_of_a_row_in_registers(name, tmp_path):
    kernel, loads, stores = ROWS[name]
    code = ptx_of(kernel("float32"), 64, tmp_path)
    # Rows that fit, and rows with an incomplete part, have their own loads.
    assert moves(code, "ld")[0] >= 2 * loads
    assert moves(code, "st")[0] >= stores
    assert ".local" not in code


@pytest.mark.parametrize("columns", [8, 64])
def test_a_thread_of_a_product_has_four_loads_of_rows(columns, tmp_path):
    code = ptx_of(csr_matmat_fours_warp("float32", *groups_of(columns)), 256, tmp_path)
    assert moves(code, "ld")[0] > 4  # four at a time, and one at a time where fewer are left
    assert moves(code, "st")[0] == 1
    assert ".local" not in code
