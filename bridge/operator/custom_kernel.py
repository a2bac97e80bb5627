"""Calls, tunes and explains operators. An operator has several kernels; JAX runs one of them on each platform."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax

from bridge.debug.agreement import check_rtol
from bridge.debug.findings import raise_kept
from bridge.debug.mode import current_mode
from bridge.errors import BackendError, ParameterError, SignatureError
from bridge.kernel.arguments import Outputs, check_arrays, parameter_names, with_names
from bridge.operator.author_functions import check_fits
from bridge.operator.choices import Question, Tuning, in_force, winners
from bridge.operator.definition import OperatorDefinition
from bridge.operator.derivatives import run
from bridge.operator.operator_call import Choice, OperatorCall, Parameters, content_of
from bridge.operator.registry import DEFAULT, Explanation, Snapshot, choose, preferred_backends
from bridge.operator.tune import searching, settled
from bridge.operator.tuning import device_of, measured

KEPT = 1024
"""Compiled programs of one operator that are kept: the latest ones."""


class CustomKernel(OperatorDefinition):
    """An operator whose kernels may be in any language; :class:`bridge.XLACustomKernel` names the languages.

    Args:
        name: Names the operator in errors and in jaxprs.
        outs: A function of the arrays (of anything with shape and dtype) and of the keyword parameters. It returns
            ``outs`` for calls that do not pass it.
        has_side_effect: Run a call even if nothing uses its results. The kernel's own call must say so too.
    """

    def __init__(self, name: str, outs: Callable[..., Any] | None = None, has_side_effect: bool = False):
        super().__init__(name)
        if outs is not None and not callable(outs):
            raise SignatureError(f"{name}: outs is {outs!r}, expected a function of the arrays and keyword parameters.")
        self._outs = outs
        self._has_side_effect = has_side_effect

    def __call__(self, *args: Any, outs: Any = None, backend: str | None = None, **parameters: Any) -> Any:
        """Runs the operator.

        Args:
            *args: Arrays, of any shape and dtype that the kernels accept.
            outs: Shape and dtype of the results: a ``jax.ShapeDtypeStruct``, or a list or pytree of them. May be left
                out if the operator has a function for it.
            backend: The backend to run, or ``"backend:configuration"``. By default, the one preferred by
                :func:`bridge.use_backend`, or else the one of the surrounding :class:`bridge.Choices`, or else the one
                that :meth:`tune` found for such a call, or else the default of the platform.
            **parameters: Static values for the generator; hashable.

        Returns:
            Arrays in the structure of ``outs``.

        Raises:
            BackendError: No kernel is registered for the request, or (when lowered) for the platform.
            ParameterError: A parameter is a traced value, an array, or not hashable. When lowered: the generator does
                not take a parameter of the call, or lacks one.
            SignatureError: ``outs`` is malformed; an argument is a container of arrays; or (when lowered) the kernel
                returns other shapes and dtypes than ``outs``.
        """
        # A change of the operator replaces this dict. So a program never counts for kernels that it was not made from.
        programs = self._programs
        if outs is None and backend is None and not parameters and (program := programs.get(None)):
            return program(*args)  # the shortest way for the commonest call: JAX itself takes a few microseconds
        try:
            key = _key_of(outs, backend, parameters)
            program = programs.get(key)
        except (TypeError, AttributeError):  # something in it is not what it should be; this says what
            return self._program(args, outs, backend, parameters)(*args)
        if program is None:
            program = self._program(args, outs, backend, parameters)
            results = program(*args)
            with self._lock:
                while len(programs) >= KEPT:
                    del programs[next(iter(programs))]
                programs[key] = program
            return results
        return program(*args)

    def _program(
        self, args: Sequence[Any], outs: Any, backend: str | None, parameters: Mapping[str, Any]
    ) -> Callable[..., Any]:
        """A function of the arrays, which JAX traces for their types, under the debug mode and preferences of a call.

        Raises:
            BackendError: ``backend`` is no name.
            ParameterError: A parameter is a traced value, an array, or not hashable.
            SignatureError: An argument is no array, or ``outs`` is missing or malformed.
        """
        names = [] if self._outs is None else parameter_names(self._outs)[0]
        check = functools.partial(check_arrays, name=self.name, parameters=names)
        check(args)
        static = self._static(parameters)
        declared = None if outs is None else Outputs.of(outs, self.name)
        snapshot, rules = self._snapshot, self._rules

        def program(*args: Any) -> Any:
            check(args)
            outputs = self._outputs(args, declared, static)
            question = Question.of(self.name, args, outputs.specs, static)
            choice, _ = self._choice(snapshot, question, backend)
            call = OperatorCall(self.name, choice, outputs.specs, static, rules, self._has_side_effect)
            if searching.value is not None and DEFAULT in preferred_backends(backend)[0]:
                call = replace(call, note=functools.partial(searching.value, snapshot, question))
            if mode := current_mode():
                raise_kept()
                found = [snapshot.find(each, mode.reference) for each in snapshot.defaults if mode.reference]
                references = tuple(each for each in found if each is not None)
                call = replace(call, mode=mode, references=references)
            return outputs.unflatten(run(call, *args))

        return jax.jit(with_names(program, self.name, names, variadic=True), inline=True)

    def _choice(self, snapshot: Snapshot, question: Question, backend: str | None) -> tuple[Choice, Explanation]:
        if not isinstance(backend, str | None):
            raise BackendError(f"{self.name}: backend is {backend!r}, expected the name of one, or None.")
        preferred, source = preferred_backends(backend)
        return choose(snapshot, preferred, source, winners(question, (*in_force.value, *self._tunings)))

    def _outputs(self, args: Sequence[Any], declared: Outputs | None, static: Parameters) -> Outputs:
        if declared is None:
            if self._outs is None:
                raise SignatureError(
                    f"{self.name}: outs is missing. Pass the shapes and dtypes of the results, or construct the "
                    "operator with outs, a function of its arguments."
                )
            types, parameters = list(map(jax.typeof, args)), dict(static.items)
            check_fits(self._outs, types, parameters, f"operator {self.name!r}: its function outs")
            declared = Outputs.of(self._outs(*types, **parameters), self.name)
        declared.check_precision(self.name)
        return declared

    def _static(self, parameters: Mapping[str, Any]) -> Parameters:
        for key, value in parameters.items():
            if isinstance(value, jax.core.Tracer):
                raise ParameterError(
                    f"{self.name}: parameter {key!r} is a traced value ({jax.typeof(value)}), but parameters are "
                    f"compiled into the kernel. Mark it static in the surrounding jax.jit (static_argnames={key!r}), "
                    "or pass it to the kernel as an array argument."
                )
            try:
                Parameters({key: value})
            except TypeError:
                raise ParameterError(
                    f"{self.name}: parameter {key!r} is {value!r} of type {type(value).__name__}, which is not "
                    "hashable, but parameters are compiled into the kernel. Pass a number, string or tuple; pass "
                    "arrays as arguments."
                ) from None
        return Parameters(parameters)

    @property
    def outs(self) -> Callable[..., Any] | None:
        """The function that returns ``outs`` for calls that do not pass it; None if each call has to pass it."""
        return self._outs

    def tune(
        self,
        *args: Any,
        outs: Any = None,
        backends: Iterable[str] | None = None,
        rtol: float | None = None,
        **parameters: Any,
    ) -> Tuning:
        """Times the backends on these arguments, and makes calls like this one use the fastest one that is right.

        Every configuration of every backend of the platform of the arguments takes part. Its results are compared with
        the results of ``"jnp"``, or, without it, of the backend that was registered first. A backend is refused if its
        results differ by more than rounding, see ``rtol``. The default of the platform is kept unless another backend
        is clearly faster.

        Calls of this operator that name no backend, with these shapes, dtypes and parameters, then use the winner,
        until a kernel or default is registered. Under ``jax.vmap``, the shapes of one element count. Programs that are
        already compiled do not change. :func:`bridge.tune` chooses for a whole function and a block of code instead.

        The kernels run many times, also those with side effects.

        All processes of ``jax.distributed`` call this together. Process 0 times, and all get its choice.

        Args:
            *args: Arrays, as for a call.
            outs: As for a call.
            backends: The backends to try: names, which stand for all of their configurations, or
                ``"backend:configuration"``. By default everything.
            rtol: The relative tolerance. The rule is the same as for :func:`bridge.debug_mode`: integers and booleans
                are equal, NaN and infinities are in the same places, and other numbers differ by at most ``rtol`` times
                the larger one of the expected magnitude and the upper quartile of all expected magnitudes. By default,
                it follows from the dtype and the sizes of the arguments: 7.6e-5 for float32 and 100 000 elements.
                :mod:`bridge.debug.agreement` has the whole rule.
            **parameters: As for a call.

        Returns:
            The choice and the trial of each candidate, to read or to print.

        Raises:
            BackendError: No kernel is registered for the platform, or none of the requested ones; the backend to
                compare with fails; no candidate is right; or a kernel changes its inputs.
            SignatureError: As for a call; or an argument is traced, or the arguments lie on several devices.
        """
        check_arrays(args, self.name)
        check_rtol(rtol, self.name)
        arrays, device = device_of(args, self.name)
        static = self._static(parameters)
        outputs = self._outputs(arrays, None if outs is None else Outputs.of(outs, self.name), static)
        snapshot = self._snapshot
        call = OperatorCall(self.name, (), outputs.specs, static, self._rules, self._has_side_effect)
        question = Question.of(self.name, arrays, outputs.specs, static)
        (made,) = settled(lambda: (measured(question, snapshot, call, device, arrays, backends, rtol),))
        self._tunings = (made, *(each for each in self._tunings if each != made))
        self._change()
        return made

    def explain(self, *args: Any, outs: Any = None, backend: str | None = None, **parameters: Any) -> Explanation:
        """Says which backend a call would run on each platform, and why; runs nothing.

        Args:
            *args: As for a call; a ``jax.ShapeDtypeStruct`` may stand for an array.
            outs: As for a call.
            backend: As for a call.
            **parameters: As for a call.

        Raises:
            BackendError: No kernel is registered for the request.
            ParameterError: As for a call.
            SignatureError: As for a call.
        """
        check_arrays(args, self.name)
        static = self._static(parameters)
        outputs = self._outputs(args, None if outs is None else Outputs.of(outs, self.name), static)
        return self._choice(self._snapshot, Question.of(self.name, args, outputs.specs, static), backend)[1]


def _key_of(outs: Any, backend: Any, parameters: Mapping[str, Any]) -> Hashable:
    """All that a call depends on, besides the operator, its arrays, and the contexts that JAX knows of."""
    if outs is None and backend is None and not parameters:
        return None
    spec: Any = outs
    if type(outs) is jax.ShapeDtypeStruct:
        spec = outs.shape, outs.dtype, *map(type, outs.shape)
    elif outs is not None:
        leaves, tree = jax.tree.flatten(outs)
        spec = tree, *((tuple(each.shape), each.dtype, *map(type, each.shape)) for each in leaves)
    return spec, backend, *((name, content_of(value)) for name, value in parameters.items())
