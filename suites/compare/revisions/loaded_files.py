"""Loads operators, and prints which files were loaded for them, as one line of JSON.

The module ``inspection`` starts this file so that it imports another revision. It uses only names that every revision
has had since operators could be loaded from files.
"""

from __future__ import annotations

import importlib
import json
import sys
import sysconfig


def main(sources: list[str]) -> dict[str, object]:
    """Returns the files that were loaded and the folders of installed packages; or what went wrong."""
    try:
        from suites.cells import catalogue

        importlib.import_module("suites.bench.worker")  # the program of its timing processes
    except ImportError as error:
        return {"error": f"this revision is too old to be compared: {error}"}
    try:
        catalogue.use(sources)
        names = sorted(catalogue.operators())
    except ValueError as error:
        return {"error": " ".join(str(error).split())}
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    paths = sysconfig.get_paths()
    return {
        "operators": names,
        "files": sorted({file for file in files if isinstance(file, str) and file != __file__}),
        "installed": sorted({*paths.values(), sys.prefix, sys.base_prefix}),
        "libraries": sorted({paths["purelib"], paths["platlib"]}),
    }


if __name__ == "__main__":
    print()
    print(json.dumps(main(sys.argv[1:])))
