"""CDeclarations are laid out as a C compiler does it, and what is not known is refused where it is needed."""

import ctypes

import pytest

from bridge.ffi.native.c_declarations import CDeclarations, UnreadableDeclarationError

READ = CDeclarations("""
/* A comment; with a { brace. */
typedef struct opaque opaque;
typedef uint8_t small;  // another
typedef small smaller;
typedef enum kind { NONE, FEW = 0x10, MORE, LEAST = -2, NEXT, FLAG = 1u << 3, } kind_t;
struct inner { char first; double second; };
typedef struct {
  smaller a; struct inner b; enum kind c;
  const opaque* d; void (*e)(int, void*); struct node** f;
} outer;
struct node { struct node* next; };
struct unknown { union { int a; float b; } both; };
struct endless { struct endless again; };
opaque* make(outer* first, int second);
enum { ALONE = 7 };
""")


def test_structs_have_the_offsets_of_c():
    outer = READ.struct("outer")
    assert {name: getattr(outer, name).offset for name, _ in outer._fields_} == {
        "a": 0, "b": 8, "c": 24, "d": 32, "e": 40, "f": 48
    }  # fmt: skip
    assert ctypes.sizeof(outer) == 56
    assert outer.b.size == ctypes.sizeof(READ.struct("inner")) == 16
    assert outer.a.size == 1


def test_a_struct_may_point_to_itself_but_not_hold_itself():
    assert ctypes.sizeof(READ.struct("node")) == 8
    with pytest.raises(UnreadableDeclarationError, match="the type 'endless'"):
        READ.struct("endless")


def test_enumerators_count_on_from_the_one_before():
    values = {"NONE": 0, "FEW": 16, "MORE": 17, "LEAST": -2, "NEXT": -1, "FLAG": 8}
    assert READ.enumerators("kind") == READ.enumerators("kind_t") == values
    assert (READ.constant("NEXT"), READ.constant("ALONE")) == (-1, 7)


@pytest.mark.parametrize(
    ("ask", "complaint"),
    [
        (lambda: READ.struct("unknown"), "the field 'union"),
        (lambda: READ.struct("opaque"), "no struct opaque"),
        (lambda: READ.enumerators("outer"), "no enumeration outer"),
        (lambda: READ.constant("SOME"), "no constant SOME"),
        (lambda: CDeclarations("enum big { MANY = 0x80000000 };").enumerators("big"), "2147483648 of MANY"),
        (lambda: CDeclarations("struct a { int b; };;}"), "a declaration without an end"),
        (lambda: CDeclarations("struct a { int b; }"), "a declaration without an end"),
        (lambda: CDeclarations("struct a { int b, c; };").struct("a"), "the field 'int b , c' of a"),
        (lambda: CDeclarations("struct a { int b; } __attribute__((packed));").struct("a"), "no struct a"),
        (lambda: CDeclarations("struct a { alignas(16) int b; };").struct("a"), "the field 'alignas"),
    ],
)
def test_what_is_not_known_is_refused(ask, complaint):
    with pytest.raises(UnreadableDeclarationError, match=complaint):
        ask()
