"""Drawn kernels that the proof accepts give the same results where the output is the memory of the input."""

import linecache
import random
import textwrap

import numpy as np
import pytest

from bridge.languages.launch_shape import LaunchShape
from bridge.source.element_wise import in_place_pairs
from bridge.source.language_rules import LanguageRules, Source

SIZE = 96
PRELUDE = """
class Dispatcher:
    def __init__(self, function):
        self.py_func = function
    def __call__(self, *arguments):
        return self.py_func(*arguments)

def get(x, i):
    return x[i]
get = Dispatcher(get)

def put(out, i, value):
    out[i] = value
put = Dispatcher(put)

def moved(i, distance):
    return i + distance
moved = Dispatcher(moved)

def put_all(source, target, first, last):
    for k in range(first, last):
        target[k] = source[k]
put_all = Dispatcher(put_all)
"""


class Drawing:
    """Draws the source of one kernel."""

    def __init__(self, random, thread=None):
        self.random, self.thread = random, thread
        self.serial = 0

    def new(self, stem):
        self.serial += 1
        return f"{stem}{self.serial}"

    def number(self):
        return str(self.random.choice([0, 0, 1, 1, 2, 3, 4, 7, "K"]))

    def index(self, counters):
        choose = self.random.choice
        if not counters or self.random.random() < 0.05:
            return self.number()
        name = counters[-1] if self.random.random() < 0.8 else choose(counters)
        forms = ["{a}"] * 12
        forms += ["{a} + {n}", "{a} * 2", "2 * {a} + {n}", "{a} * 4 + {b}", "{a} + {b}", "{a} - {n}", "{a} // 2"]
        forms += ["moved({a}, {n})", "min({a}, {n})", "n - 1 - {a}", "int({a})", "({a} + {n}) - {n}"]
        form = choose(forms)
        return form.format(a=name, b=choose(counters), n=self.number())

    def value(self, counters, names):
        choose = self.random.choice
        at = self.index(counters)
        forms = ["x[{i}]"] * 6
        forms += ["get(x, {i})", "x[{i}] + x[{j}]", "2.0", "{v}", "{v} + x[{i}]", "out[{i}]"]
        forms += ["x[{i}] if {v} > 0 else 1.0", "x[(lambda: {n})()]"]
        name = choose(names) if names else "1.5"
        return choose(forms).format(i=at, j=self.index(counters), v=name, n=self.number())

    def block(self, depth, counters, names):
        statements = []
        for _ in range(self.random.choice([1, 1, 1, 2, 2, 3])):
            statements += self.statement(depth, counters, names)
        return statements

    def statement(self, depth, counters, names):
        kinds = ["store"] * 5 + ["load"] * 3 + ["store_called", "increase", "if", "change", "skip", "tuple", "alias"]
        if depth < 3:
            kinds += ["for"] * (6 if depth == 0 and self.thread is None else 2) + ["while"] * 2 + ["helper"]
        match self.random.choice(kinds):
            case "store":
                return [f"out[{self.index(counters)}] = {self.value(counters, names)}"]
            case "store_called":
                return [f"put(out, {self.index(counters)}, {self.value(counters, names)})"]
            case "increase":
                return [f"out[{self.index(counters)}] += {self.value(counters, names)}"]
            case "load":
                name = self.new("v")
                line = f"{name} = {self.value(counters, names)}"
                names.append(name)
                return [line]
            case "tuple":
                one, other = self.new("v"), self.new("v")
                line = f"{one}, {other} = {self.value(counters, names)}, {self.value(counters, names)}"
                names += [one, other]
                return [line]
            case "alias":
                return [self.random.choice(["y = x", "x, out = x, out", "x, out = out, x", "n = len(x)", "n = 6"])]
            case "change" if counters:  # of the variable of a loop, or of the thread
                return [f"{counters[-1]} = {self.index(counters)}"]
            case "skip":
                in_loop = len(counters) > (self.thread is not None)
                ends = ["break", "continue", "continue", "return"] if in_loop else ["return"]
                return [f"if x[{self.index(counters)}] > 0:", "    " + self.random.choice(ends)]
            case "helper":
                return [f"put_all(x, out, {self.index(counters)}, {self.index(counters)} + {self.number()})"]
            case "if":
                test = self.random.choice(["{v} > 0", "x[{i}] > 0", "{i} < n", "{i} % 2", "{i} < {n}"])
                test = test.format(v=names[-1] if names else "1.5", i=self.index(counters), n=self.number())
                lines = [f"if {test}:", *self.indented(self.block(depth + 1, counters, list(names)))]
                if self.random.random() < 0.5:
                    lines += ["else:", *self.indented(self.block(depth + 1, counters, list(names)))]
                return lines
            case "for":
                name = self.random.choice([self.new("i")] * 9 + [counters[-1] if counters else "i"])
                first = self.index(counters) if self.random.random() < 0.4 else "0"
                spans = [f"{first}, {first} + 4", f"{first}, n", f"{first}, n, 4", f"{first}, 12, 3"]
                ends = self.random.choice([*spans, "n", "4", "3", "0, n, 2"])
                return [
                    f"for {name} in range({ends}):",
                    *self.indented(self.block(depth + 1, [*counters, name], list(names))),
                ]
            case "while":
                name, stop = self.new("w"), self.random.choice(["n", "4", "min({w} + 4, n)", "s"])
                body = self.block(depth + 1, [*counters, name], list(names))
                step = f"{name} += {self.random.choice(['1', '1', '2', '4', 'K'])}"
                place = len(body) if self.random.random() < 0.9 else 0
                if place == 0 and body[0].startswith(" "):
                    place = len(body)
                first = self.index(counters)
                return [
                    f"{name} = {first}",
                    f"s = min({name} + 4, n)",
                    f"while {name} < {stop.format(w=name)}:",
                    *self.indented(["spend()", *body[:place], step, *body[place:]]),
                ]
        return ["pass"]

    def indented(self, lines):
        return ["    " + line for line in lines]

    def source(self):
        start = [] if self.thread is None else [self.thread]
        counters = [] if self.thread is None else ["t"]
        body = ["n = x.size - 40", *start, *self.block(0, counters, [])]
        return "\n".join(["def kernel(x, out):", *self.indented(body)])


class OutOfFuel(Exception):
    """A loop goes on for ever."""


def defined(source, path, **given):
    """The namespace of a drawn module. The proof finds the source as that of a file."""
    text = PRELUDE + textwrap.dedent(source) + "\n"
    name = str(path / f"drawn_{abs(hash(text))}.py")
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    fuel = [3000]

    def spend():
        fuel[0] -= 1
        if fuel[0] < 0:
            raise OutOfFuel

    namespace = {"spend": spend, "K": 1, **given}
    exec(compile(text, name, "exec"), namespace)
    namespace["refuel"] = lambda: fuel.__setitem__(0, 3000)
    return namespace


def proven(namespace, rules):
    def follow(value):
        return Source(value.py_func) if isinstance(value, namespace["Dispatcher"]) else None

    return in_place_pairs(Source(namespace["kernel"]), [1, 1], 1, rules(follow))


def results(namespace, run, x, out):
    """The output after a run; None if it uses elements that do not exist, or does not end."""
    namespace["refuel"]()
    try:
        with np.errstate(all="ignore"):
            run(namespace["kernel"], x, out)
    except (IndexError, OutOfFuel, UnboundLocalError):
        return None
    return out


def compared(namespace, run, random):
    """Runs a kernel on two arrays and on one; the same results, or nothing if it cannot run."""
    x = np.array([random.uniform(-1, 1) for _ in range(SIZE)])
    apart, shared = x.copy(), x.copy()
    before = results(namespace, run, x, apart)
    after = results(namespace, run, shared, shared)
    return None if before is None or after is None else np.array_equal(before, after, equal_nan=True)


def alone(kernel, x, out):
    kernel(x, out)


@pytest.mark.parametrize("seed", range(4))
def test_a_drawn_kernel_is_accepted_only_if_it_is_right_in_place(seed, tmp_path):
    draw = random.Random(seed)
    accepted = refused = 0
    for _ in range(1000):
        drawing = Drawing(draw)
        source = drawing.source()
        namespace = defined(source, tmp_path)
        if proven(namespace, lambda follow: LanguageRules(follow=follow)):
            accepted += 1
            assert compared(namespace, alone, draw) is not False, source
        else:
            refused += compared(namespace, alone, draw) is False
    assert accepted > 10
    assert refused > 80


GRID, BLOCK = 3, 4


@pytest.mark.parametrize("seed", range(4))
def test_a_drawn_kernel_of_threads_is_accepted_only_if_it_is_right_in_place(seed, tmp_path):
    cuda = pytest.importorskip("numba.cuda", reason="numba-cuda is not installed")
    from bridge.languages.numba_cuda.thread_numbers import launch_rules

    rules = launch_rules(LaunchShape((GRID, 1, 1), (BLOCK, 1, 1)))
    draw = random.Random(seed)
    accepted = refused = 0
    for _ in range(1000):
        numbers = draw.choice(
            ["t = grid(1)", "t = grid(1)", "t = 4 * grid(1)", "t = threadIdx.x", "t = threadIdx.x + 4 * blockIdx.x",
             "t = threadIdx.x * 3 + blockIdx.x"]
        )  # fmt: skip
        source = Drawing(draw, numbers).source()
        shown = defined(source, tmp_path, grid=cuda.grid, threadIdx=cuda.threadIdx, blockIdx=cuda.blockIdx)
        order = list(range(GRID * BLOCK))
        draw.shuffle(order)
        thread = [0]
        run = defined(
            source,
            tmp_path,
            grid=lambda _, thread=thread: thread[0],
            threadIdx=_Axis(lambda thread=thread: thread[0] % BLOCK),
            blockIdx=_Axis(lambda thread=thread: thread[0] // BLOCK),
        )

        def launch(kernel, x, out, order=order, thread=thread):
            for each in order:
                thread[0] = each
                kernel(x, out)

        found = proven(shown, lambda follow: LanguageRules(rules.counters, rules.attributes, rules.calls, follow))
        if found:
            accepted += 1
            assert compared(run, launch, draw) is not False, source
        else:
            refused += compared(run, launch, draw) is False
    assert accepted > 10
    assert refused > 80


class _Axis:
    def __init__(self, number):
        self._number = number

    @property
    def x(self):
        return self._number()
