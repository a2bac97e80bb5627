"""Files that a CUDA C++ source includes: any edit of one is noticed, and a file that nobody finds is said to be so."""

import pytest

from bridge.cuda.includes import included_by


def digest(source, *folders):
    return included_by(source, folders)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.h").write_text('#include "deep/b.h"\n')
    (tmp_path / "deep" / "b.h").write_text('#include "c.h"\n')
    (tmp_path / "deep" / "c.h").write_text("#define SCALE 2\n")
    return tmp_path


WAYS = [
    '#include "a.h"',
    '#inc\\\nlude "a.h"',
    'const char* s = "/*"; \n#include "a.h"\n const char* t = "*/";',
    'auto s = R"x(\n)" /* )x";\n#include "a.h"',
    "#if __has_include(<a.h>)\n#endif",
]


@pytest.mark.parametrize("source", WAYS)
def test_an_edit_of_a_file_deep_below_is_noticed(folder, source):
    before = digest(source, folder)
    assert digest(source, folder) == before
    (folder / "deep" / "c.h").write_text("#define SCALE 3\n")
    assert digest(source, folder) != before


@pytest.mark.parametrize(
    "source",
    ["#define NAME <a.h>\n#include NAME", "#include_next <a.h>", "#include", "#if __has_include(NAME)\n#endif"],
)
def test_what_only_a_compiler_can_tell_is_not_guessed(folder, source):
    assert included_by(source, [folder]) is None
    (folder / "deep" / "c.h").write_text(source)
    assert included_by('#include "a.h"', [folder]) is None


def test_a_file_that_comes_with_the_compiler_counts_by_the_version_of_that(folder):
    source = '#include "a.h"\n#include <own.h>'
    assert included_by(source, [folder], lambda: "13.0") != included_by(source, [folder], lambda: "13.1")
    assert included_by('#include "a.h"', [folder], lambda: pytest.fail("none is missing"))


@pytest.mark.parametrize("source", ['// #include "a.h"', '/*\n#include "a.h"\n*/', "", "int include;"])
def test_what_a_comment_says_is_no_file(tmp_path, source):
    assert included_by(source, [tmp_path]) == included_by("", [])


class TestToolkit:
    @pytest.fixture
    def toolkit(self, tmp_path):
        (tmp_path / "deep").mkdir()
        (tmp_path / "cuda.h").write_text("#define CUDA_VERSION 13000\n")
        (tmp_path / "fp16.h").write_text("#include <deep/detail.h>\n#define NAME <x>\n#include NAME\n")
        (tmp_path / "deep" / "detail.h").write_text("")
        return tmp_path

    def test_its_headers_count_by_their_content_and_its_version(self, toolkit):
        first = digest("#include <fp16.h>", toolkit)
        (toolkit / "deep" / "detail.h").write_text("// as of the same version")
        assert digest("#include <fp16.h>", toolkit) == first
        (toolkit / "fp16.h").write_text("")
        second = digest("#include <fp16.h>", toolkit)
        assert second != first
        (toolkit / "cuda.h").write_text("#define CUDA_VERSION 13010\n")
        assert digest("#include <fp16.h>", toolkit) not in (first, second)
