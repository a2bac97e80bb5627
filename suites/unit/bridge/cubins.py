"""Makes the cubin of a call without a GPU, and reads from it what its kernels take, as CUDA's driver tells it."""

import struct

import msgspec

from bridge import export_for
from bridge.cuda.carried_cubins import Cubin

_PARAMETER = (0x17, 0x45)  # of the attributes in .nv.info.KERNEL: EIATTR_KPARAM_INFO, also of later chips


def cubin_in(call, capability=90):
    """The cubin that an exported program carries for a compute capability."""
    with export_for(f"sm_{capability}"):
        _, content = call.compiled("cuda").carry()
    return msgspec.convert(msgspec.msgpack.decode(content)["cubins"][capability], Cubin)


def sizes_in(elf, symbol):
    """Bytes of each parameter of a kernel in a cubin, in order."""
    (start,), (size, count, names) = struct.unpack_from("<Q", elf, 40), struct.unpack_from("<3H", elf, 58)
    heads = [struct.unpack_from("<IIQQQQ", elf, start + size * index) for index in range(count)]
    (place,) = (
        head[4:] for head in heads if elf[heads[names][4] + head[0] :].startswith(f".nv.info.{symbol}\0".encode())
    )
    at, end, found = place[0], sum(place), {}
    while at < end:
        form, kind, value = struct.unpack_from("<BBH", elf, at)
        if form == 4 and kind in _PARAMETER:
            _, ordinal, _, bits = struct.unpack_from("<IHHI", elf, at + 4)
            found[ordinal] = bits >> 18
        at += 4 + (value if form == 4 else 0)
    return tuple(found[ordinal] for ordinal in sorted(found))
