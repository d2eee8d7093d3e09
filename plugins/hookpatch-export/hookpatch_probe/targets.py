"""Changes suggested by the source of a model: sizes and values around a number, NaN, types, equal tensors, lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

import torch

from hookpatch_probe.changes import LARGE, Change, axes_of, resized, sizes
from hookpatch_probe.example import Example, Tensors
from hookpatch_probe.source import Asked

_MOST: Final = 6  # numbers of a kind
_LONGEST: Final = 8192


def targets(example: Example, questions: Asked, apart: bool) -> Iterator[Change]:
    """Yield the changes, the likeliest first.

    Args:
        example: the example.
        questions: the questions of the source.
        apart: whether axes of equal size and place in several tensors are also changed apart.
    """
    yield from _sizes(example, questions, apart)
    yield from _counted(example, apart)
    yield from _arranged(example, questions)
    for index, tensor in enumerate(example.tensors):
        for words, change in _values(tensor, questions):
            yield _change_of_tensor(example.names[index], index, words, change)
    if questions.alike:
        yield from _alike(example)
    if questions.types:
        yield from _types(example)
    for dtype in questions.kinds:
        for index, tensor in enumerate(example.tensors):
            new = _of_the_other_kind(tensor, dtype)
            words = f"as {str(new).removeprefix('torch.')}"
            yield _change_of_tensor(example.names[index], index, words, lambda original, new=new: original.to(new))  # type: ignore[misc]  # default
    if questions.ranks:
        yield from _ranks(example)
    if questions.gradients:
        for index, tensor in enumerate(example.tensors):
            if tensor.is_floating_point() and not tensor.requires_grad:
                name = example.names[index]
                yield _change_of_tensor(
                    name, index, "with a gradient", lambda original: original.clone().requires_grad_()
                )


def _ranks(example: Example) -> Iterator[Change]:
    """Yield changes of the number of axes, of each tensor alone and of all."""
    ways: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "with an axis more": lambda tensor: tensor[None],
        "without the first axis": lambda tensor: tensor[0],
    }
    for words, change in ways.items():
        for index, name in enumerate(example.names if len(example.names) > 1 else ()):
            alone = _change_of_tensor(name, index, words, change)
            yield Change(alone.words, alone.apply, rearranges=True)
        every = " and ".join(example.names)
        yield Change(f"{every} {words}", lambda tensors, change=change: tuple(map(change, tensors)), rearranges=True)  # type: ignore[misc]  # default


def _sizes(example: Example, questions: Asked, apart: bool) -> Iterator[Change]:
    words = {change.words for _, changes in sizes(example, apart) for change in changes}
    if questions.shapes and not apart:  # sizes that are equal in the example need not be
        for _, changes in sizes(example, apart=True):
            yield from (change for change in changes if change.words not in words)
    may_grow = all(tensor.device.type == "cpu" for tensor in example.tensors)
    for axes in axes_of(example, apart):
        old = example.tensors[axes[0][0]].shape[axes[0][1]]
        for number in islice(dict.fromkeys([*questions.sizes, *questions.slices]), _MOST):
            for new in (number + 1, number) if old <= number else (number, number - 1):
                change = resized(example, axes, new)
                most = max(tensor.numel() for tensor in example.tensors) * new / old
                least = 0 if number == 0 else 1  # no axis is empty but where the source asks for that
                if not least <= new <= _LONGEST or new == old or most > LARGE or (new > old and not may_grow):
                    continue
                if change.words not in words:
                    words.add(change.words)
                    yield change


def _counted(example: Example, apart: bool) -> Iterator[Change]:
    """Yield longer axes together with the whole numbers that count the axis: ``lengths`` beside a padded ``x``."""
    if any(tensor.device.type != "cpu" for tensor in example.tensors):
        return
    for index, tensor in enumerate(example.tensors):
        if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool or not tensor.numel():
            continue
        most = int(tensor.max())
        for axes in axes_of(example, apart):
            old = example.tensors[axes[0][0]].shape[axes[0][1]]
            if most not in (old, old - 1) or old < 2 or all(other == index for other, _ in axes):
                continue
            if max(other.numel() for other in example.tensors) * 2 <= LARGE:
                yield _longer(example, axes, index, most)


def _longer(example: Example, axes: tuple[tuple[int, int], ...], index: int, most: int) -> Change:
    old = example.tensors[axes[0][0]].shape[axes[0][1]]
    longer = resized(example, axes, 2 * old)

    def apply(tensors: Tensors) -> Tensors:
        changed = longer.apply(tensors)
        counted = changed[index].masked_fill(changed[index] == most, most + old)
        return (*changed[:index], counted, *changed[index + 1 :])

    return Change(f"{longer.words}, {example.names[index]} up to {most + old}", apply)


def _change_of_tensor(name: str, index: int, words: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    def apply(tensors: Tensors) -> Tensors:
        return (*tensors[:index], change(tensors[index]), *tensors[index + 1 :])

    return Change(f"{name} {words}", apply)


def _values(tensor: torch.Tensor, questions: Asked) -> Iterator[tuple[str, Callable[[torch.Tensor], torch.Tensor]]]:
    if not tensor.numel() or tensor.is_complex() or tensor.dtype == torch.bool:
        return
    if 0 in questions.values and tensor.is_floating_point():
        yield "all at least zero", torch.abs
        yield "all at most zero", lambda original: -original.abs()
    for number in islice((value for value in questions.values if value or not tensor.is_floating_point()), _MOST):
        if tensor.is_floating_point():
            if 2 * abs(number) <= torch.finfo(tensor.dtype).max:
                yield f"scaled to {2 * abs(number):g}", _scaled(2 * abs(number))
                yield f"scaled to {-2 * abs(number):g}", _scaled(-2 * abs(number))
        elif number == int(number) and torch.iinfo(tensor.dtype).min <= number <= torch.iinfo(tensor.dtype).max:
            yield f"beginning with {int(number)}", _first(number)
    if questions.whole and tensor.is_floating_point():
        yield "rounded", torch.round
    if questions.finite and tensor.is_floating_point():
        yield "with a NaN", _first(float("nan"))
        yield "with an infinity", _first(float("inf"))
    if questions.strides and tensor.dim() > 1 and min(tensor.shape[-2:]) > 1:
        yield "not contiguous", lambda original: original.mT.contiguous().mT


def _scaled(most: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        greatest = tensor.abs().max()
        return torch.full_like(tensor, most) if greatest == 0 else tensor * (most / greatest)

    return change


def _first(number: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        changed = tensor.clone()
        changed.view(-1)[0] = number
        return changed

    return change


def _alike(example: Example) -> Iterator[Change]:
    """Yield changes that give a tensor the values of an earlier one of the same type and shape."""
    for later, tensor in enumerate(example.tensors):
        for index, earlier in enumerate(example.tensors[:later]):
            if earlier.dtype == tensor.dtype and earlier.shape == tensor.shape and not torch.equal(earlier, tensor):
                yield _copied(f"{example.names[later]} equal to {example.names[index]}", index, later)
                break


def _copied(words: str, source: int, place: int) -> Change:
    return Change(words, lambda tensors: (*tensors[:place], tensors[source].clone(), *tensors[place + 1 :]))


def _types(example: Example) -> Iterator[Change]:
    for dtype in (torch.float64, torch.float16, torch.int64, torch.int32):
        if any(_is_of_kind(tensor, dtype) and tensor.dtype != dtype for tensor in example.tensors):
            name = str(dtype).removeprefix("torch.")
            yield Change(f"as {name}", lambda tensors, dtype=dtype: _as(tensors, dtype))  # type: ignore[misc]  # default


def _as(tensors: Tensors, dtype: torch.dtype) -> Tensors:
    return tuple(tensor.to(dtype) if _is_of_kind(tensor, dtype) else tensor for tensor in tensors)


def _of_the_other_kind(tensor: torch.Tensor, dtype: torch.dtype) -> torch.dtype:
    """Return a type for a tensor: a type of the kind if the tensor is of another kind, and the other way about."""
    if dtype == torch.float32:
        return torch.int64 if tensor.is_floating_point() else dtype
    of_the_kind = tensor.is_complex() if dtype == torch.complex64 else tensor.dtype == dtype
    return torch.float32 if of_the_kind else dtype


def _is_of_kind(tensor: torch.Tensor, dtype: torch.dtype) -> bool:
    """Return True if a tensor holds floats as the type does, or whole numbers as the type does."""
    if tensor.is_complex() or tensor.dtype == torch.bool:
        return False
    return tensor.is_floating_point() == dtype.is_floating_point


def _arranged(example: Example, questions: Asked) -> Iterator[Change]:
    """Yield changes of lists, to an element less and more, and of dicts, to the other order and to other keys."""
    for path, container in _containers(example.arguments(example.tensors), ()):
        changes: dict[str, Callable[[Any], Any]] = {}
        if isinstance(container, dict) and len(container) > 1:
            changes["in the other order"] = lambda mapping: dict(reversed(mapping.items()))
        if isinstance(container, dict) and container:
            for key in questions.keys:
                if key not in container:
                    changes[f"with {key!r}"] = partial(_with_key, key=key)
                elif len(container) > 1:
                    changes[f"without {key!r}"] = partial(_without_key, key=key)
        elif isinstance(container, list) and container:
            changes |= {"one longer": lambda items: [*items, items[-1]], "one shorter": lambda items: items[:-1]}
        for words, change in changes.items():
            name = "".join(f"[{key!r}]" for key in path[2:])
            yield Change(f"argument {path[1]}{name} {words}", _change_at(example, path, change), rearranges=True)


def _with_key(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    return {**mapping, key: next(iter(mapping.values()))}


def _without_key(mapping: dict[str, Any], key: str) -> dict[str, Any]:
    return {other: value for other, value in mapping.items() if other != key}


def _change_at(example: Example, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Callable[[Tensors], Tensors]:
    return lambda tensors: example.rearranged(lambda arguments: _with(arguments, path, change), tensors)


def _with(container: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(container)
    inner = _with(container[path[0]], path[1:], change)
    if isinstance(container, dict):
        return {key: inner if key == path[0] else value for key, value in container.items()}
    items = [inner if index == path[0] else value for index, value in enumerate(container)]
    return items if isinstance(container, list) else tuple(items)


def _containers(container: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the lists and dicts in arguments, each with the path; the arguments themselves are left out."""
    if type(container) not in (list, tuple, dict):
        return
    if len(path) > 1:
        yield path, container
    for key, value in container.items() if isinstance(container, dict) else enumerate(container):
        yield from _containers(value, (*path, key))
