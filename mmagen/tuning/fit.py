"""Fits the coefficients of predicted times to measurements, and improves the choice that follows from them.

Three steps. The coefficients of each compiled kernel by robust least squares on the logarithm of its times, in all clusters that it
was launched in; a problem counts less the further a config is from the fastest one there, since no choice depends on it. Then
those of each config, drawn towards its kernel's, and towards the median of all kernels in the coefficients that belong to the
device. Last, for the configs of a library together: the expected loss by choosing the least predicted time, in place of the error
of the prediction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from mmagen.core.errors import UsageError
from mmagen.plan.cost import Call, KernelShape, Terms, terms, time_us
from mmagen.spec.cost import Cost

Vector = NDArray[np.float64]
Times = Mapping[str, Mapping[Call, float]]


@dataclass(frozen=True)
class Kernel:
    """A config to fit: its shape, and how many of its CTAs run at once."""

    shape: KernelShape
    ctas: int


# The first guess of each coefficient, and the largest factor by which a fit leaves it. Those that are shared belong to the
# device: fits of single configs are drawn towards their median.
_START: dict[str, tuple[float, float, bool]] = {
    "launch_us": (2.2, 20.0, False),
    "overlap_us": (0.5, 10.0, False),
    "tile_us": (0.5, 20.0, False),
    "store_pitch": (0.2, 10.0, True),
    "odd_store_us": (1.5, 20.0, False),
    "k_tile_us": (0.2, 50.0, False),
    "throttle": (0.3, 3.0, True),
    "fixed_part": (0.1, 50.0, False),
    "line_ns": (1.2, 5.0, True),
    "dram_tbps": (4.0, 8.0, True),
    "dram_spread": (0.4, 10.0, True),
    "dram_rows": (0.15, 30.0, False),
    "dram_columns": (0.15, 30.0, False),
    "store_tbps": (4.0, 8.0, True),
    "l2_tbps": (12.0, 8.0, True),
    "l2_spread": (0.4, 10.0, True),
    "l2_pitch": (0.2, 10.0, True),
    "l2_odd_pitch": (0.8, 10.0, True),
    "l2_ragged": (0.1, 10.0, True),
    "fixup_us": (1.5, 20.0, False),
    "part_us": (0.03, 10.0, True),
    "fixup_tbps": (3.0, 10.0, True),
}
_NAMES = tuple(_START)
_GUESS = np.log([start for start, _, _ in _START.values()])
_RANGE = np.log([factor for _, factor, _ in _START.values()])
_SHARED = np.array([shared for _, _, shared in _START.values()])
_CLOSE = 0.5  # a config that takes so much longer than the fastest counts half
_LEAST_WEIGHT = 0.05
_PULL, _SHARED_PULL = 0.02, 0.1  # towards the guess, and towards the median
_KERNEL_PULL = 0.3  # of a config towards the kernel that others launch too
_ROBUST = 0.1  # relative errors beyond it count linearly
_SOFTNESS = 0.01  # of the choice, in relative time; with 0.05 the choice is worse on held-out problems
_REFINE_PULL, _REFINE_STEPS = 30.0, 40  # with a weaker pull the choice loses on problems that are held out
_STEP = 1e-7  # of finite differences, in the logarithm of a coefficient
_DIGITS = 4


def fit(kernels: Mapping[str, Kernel], times: Times, compiled: Mapping[str, str] | None = None) -> dict[str, Cost]:
    """The coefficients of each config. times: config -> call -> measured seconds; of at least eight calls each. compiled: the
    compiled kernel of each config, by default one of its own.

    Raises UsageError without scipy.
    """
    fastest = _fastest(times)
    data = {name: _Data.of(kernel, times[name], fastest) for name, kernel in kernels.items()}
    launches: dict[str, list[str]] = {}
    for name in kernels:
        launches.setdefault(compiled[name] if compiled else name, []).append(name)
    fitted = {}
    of_kernels = {
        shared: _least_squares(_Data.joined([data[name] for name in names]), _GUESS, _PULL * np.ones_like(_GUESS))
        for shared, names in launches.items()
    }
    median = np.median(list(of_kernels.values()), axis=0)
    for shared, names in launches.items():
        alone = len(names) == 1
        of_device = median if alone else (median + of_kernels[shared]) / 2
        towards = np.where(_SHARED, of_device, of_kernels[shared])
        pull = np.where(_SHARED, _SHARED_PULL, _PULL if alone else _KERNEL_PULL)
        for name in names:
            fitted[name] = _cost(_least_squares(data[name], towards, pull), kernels[name])
    return fitted


def refine(
    kernels: Mapping[str, Kernel], costs: Mapping[str, Cost], times: Times, weights: Mapping[Call, float] | None = None
) -> dict[str, Cost]:
    """Costs with which the least predicted time loses less, for configs that are one library.

    A call counts if it was measured with at least two of the configs; the choice is then among these. weights: how much, 1 on
    average. Raises UsageError without scipy.
    """
    optimize = _scipy()
    names = list(kernels)
    calls = comparable(names, times)
    if len(calls) < 2:
        return dict(costs)
    stacked = [_stacked([terms(kernels[name].shape, kernels[name].ctas, call) for call in calls]) for name in names]
    measured = np.array([[times[name].get(call, np.inf) for call in calls] for name in names])
    loss = np.minimum(np.log(measured / measured.min(axis=0)), 0.7)
    unknown = np.where(np.isinf(measured), np.inf, 0.0)
    share = np.array([1.0 if weights is None else weights[call] for call in calls]) / len(calls)
    start = np.concatenate([_vector(costs[name]) for name in names])
    width = len(_NAMES)

    def logs(index: int, vector: Vector) -> Vector:
        return np.asarray(np.log(_times(vector, stacked[index])))

    def objective(point: Vector) -> tuple[float, Vector]:
        parts = point.reshape(len(names), width)
        predicted = np.array([logs(i, part) for i, part in enumerate(parts)])
        candidates = predicted + unknown
        likely = np.exp((candidates.min(axis=0) - candidates) / _SOFTNESS)
        chosen = likely / likely.sum(axis=0)
        expected = (chosen * loss).sum(axis=0)
        by_log = -chosen * (loss - expected) / _SOFTNESS * share
        gradient = 2 * _REFINE_PULL * (point - start) / len(calls)
        step = 1e-4
        for i, part in enumerate(parts):
            moved = logs(i, part + step * np.eye(width))
            gradient[i * width : (i + 1) * width] += (moved - predicted[i]) @ by_log[i] / step
        return float(expected @ share + _REFINE_PULL * ((point - start) ** 2).sum() / len(calls)), gradient

    found = optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": _REFINE_STEPS})
    parts = found.x.reshape(len(names), width)
    return {name: _cost(part, kernels[name]) for name, part in zip(names, parts, strict=True)}


def comparable(names: Iterable[str], times: Times) -> list[Call]:
    """The calls on which at least two of the configs were measured."""
    configs_of = Counter(call for name in names for call in times[name])
    return [call for call, configs in configs_of.items() if configs > 1]


def cross_validated(
    kernels: Mapping[str, Kernel], times: Times, folds: int, seed: int, fitted: Callable[[Times], dict[str, Cost]]
) -> Vector:
    """choice_ratio() of each comparable() call, with coefficients that were fitted without the call.

    fitted: makes costs of such a part of `times`.
    """
    names = list(kernels)
    calls = comparable(names, times)
    order = np.random.default_rng(seed).permutation(len(calls))
    ratios = np.ones(len(calls))
    for fold in np.array_split(order, folds):
        held_out = {calls[i] for i in fold}
        costs = fitted({name: {call: t for call, t in times[name].items() if call not in held_out} for name in names})
        for i in fold:
            ratios[i] = choice_ratio(kernels, costs, times, calls[i])
    return ratios


def choice_ratio(kernels: Mapping[str, Kernel], costs: Mapping[str, Cost], times: Times, call: Call) -> float:
    """The fastest time of a call over that of the config with the least predicted time, both of those that were measured on it."""
    measured = {name: kernel for name, kernel in kernels.items() if call in times[name]}
    return min(times[name][call] for name in measured) / times[choice(measured, costs, call)][call]


def choice(kernels: Mapping[str, Kernel], costs: Mapping[str, Cost], call: Call) -> str:
    """The config with the least predicted time."""
    return min(kernels, key=lambda name: time_us(costs[name], terms(kernels[name].shape, kernels[name].ctas, call)))


@dataclass(frozen=True)
class _Data:
    terms: Terms
    us: Vector
    weights: Vector

    @staticmethod
    def of(kernel: Kernel, times: Mapping[Call, float], fastest: Mapping[Call, float]) -> _Data:
        us = np.array(list(times.values())) * 1e6
        slower = us / np.array([fastest[call] for call in times]) / 1e6 - 1
        weights = np.maximum(1 / (1 + slower / _CLOSE), _LEAST_WEIGHT)
        return _Data(_stacked([terms(kernel.shape, kernel.ctas, call) for call in times]), us, weights)

    @staticmethod
    def joined(parts: Sequence[_Data]) -> _Data:
        """The data of several configs as those of one."""
        columns = {field.name: np.concatenate([getattr(one.terms, field.name) for one in parts]) for field in fields(Terms)}
        us, weights = (np.concatenate([getattr(one, name) for one in parts]) for name in ("us", "weights"))
        return _Data(Terms(**columns), us, weights)  # type: ignore[arg-type]


def _fastest(times: Times) -> dict[Call, float]:
    found: dict[Call, float] = {}
    for by_call in times.values():
        for call, seconds in by_call.items():
            found[call] = min(seconds, found.get(call, seconds))
    return found


def _stacked(rows: Sequence[Terms]) -> Terms:
    """The terms of many calls as one, of arrays."""
    columns = {field.name: np.array([getattr(row, field.name) for row in rows], dtype=float) for field in fields(Terms)}
    return Terms(**columns)  # type: ignore[arg-type]


def _times(vectors: Vector, stacked: Terms) -> Vector:
    """Predicted microseconds, (..., calls), for logarithms of coefficients, (..., len(_NAMES)): one set, or one in each row."""
    values = dict(zip(_NAMES, np.moveaxis(np.exp(vectors), -1, 0)[..., None], strict=True))
    return np.asarray(time_us(Cost.model_construct(**values), stacked))


def _least_squares(data: _Data, towards: Vector, pull: Vector) -> Vector:
    optimize = _scipy()
    low, high = _GUESS - _RANGE, _GUESS + _RANGE

    def residuals(vector: Vector) -> Vector:
        errors = data.weights * np.log(_times(vector, data.terms) / data.us)
        return np.concatenate([errors, pull * (vector - towards)])

    def jacobian(vector: Vector) -> Vector:
        """Forward differences; backward ones at the upper bound. scipy's own would call residuals() once for each coefficient."""
        steps = np.where(vector + _STEP <= high, _STEP, -_STEP)
        moved = np.log(_times(vector + np.diag(steps), data.terms) / _times(vector, data.terms))
        return np.concatenate([(data.weights * moved).T / steps, np.diag(pull)])

    start = np.clip(towards, low + 1e-6, high - 1e-6)
    found = optimize.least_squares(residuals, start, jac=jacobian, loss="soft_l1", f_scale=_ROBUST, bounds=(low, high))
    return np.asarray(found.x)


def _vector(cost: Cost) -> Vector:
    return np.log([max(getattr(cost, name), 1e-9) for name in _NAMES])


def _cost(vector: Vector, kernel: Kernel) -> Cost:
    values = {name: float(f"{value:.{_DIGITS}g}") for name, value in zip(_NAMES, np.exp(vector), strict=True)}
    values["fixed_part"] = min(values["fixed_part"], 1.0) if kernel.shape.widths else 0.0
    return Cost(ctas=kernel.ctas, **values)


def _scipy() -> ModuleType:
    try:
        from scipy import optimize
    except ImportError:
        raise UsageError("fitting the predicted times needs scipy; install it with pip install 'mmagen[tune]'") from None
    module: ModuleType = optimize
    return module
