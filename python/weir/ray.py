"""Weir on Ray: Dataset.map_batches with one program an actor, and Ray Serve with one a replica.

    rows.map_batches(weir.ray.Predictor, **weir.ray.Predictor.arguments("model.onnx", batch_size=256, num_cpus=4))

See docs/scale.md. The package ray is imported when a function needs it.
"""

from __future__ import annotations

import asyncio
import math
import os
from typing import Any, Mapping

from ._errors import InputError
from ._program import NUMPY
from ._worker import Worker, worker

# The bytes of an actor's process before it has a model: Python, Ray, NumPy and Arrow, and weir's library.
PROCESS = 320 << 20


class Predictor:
    """What an actor of Dataset.map_batches does: it holds one program, and runs it on each batch.

    The columns that are the model's inputs are replaced by its outputs; others stay. arguments gives the parameters of
    map_batches that belong to it.
    """

    def __init__(self, model: Any, *, batch_size: int, inputs: Mapping[str, str] | None = None, **options: Any) -> None:
        """Compiles a model: its path or its bytes, or a folder of a model of texts, whose input is text and whose output is
        vector. inputs gives the column for an input if it has another name.

        The other parameters are weir.compile's, or weir.load_embedder's.
        """
        self._worker = worker(model, batch_size, **options)
        self._columns = {port.name: port.name for port in self._worker.inputs}
        for name, column in (inputs or {}).items():
            if name not in self._columns:
                ports = ", ".join(map(str, self._worker.inputs))
                raise InputError(f"there is no input {name!r}; the inputs are {ports}")
            self._columns[name] = column
        self._used = set(self._columns.values())

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The batch with outputs in the place of inputs. batch_format must be "numpy"."""
        given = {}
        for name, column in self._columns.items():
            if column not in batch:
                raise InputError(
                    f"the batch has no column {column!r}, only {', '.join(map(repr, batch))}. Name the column of each input: "
                    "inputs={input: column}"
                )
            given[name] = batch[column]
        made = self._worker.run(given)
        kept = {name: column for name, column in batch.items() if name not in self._used}
        for name in kept:
            if name in made:
                raise InputError(f"column {name!r} has the name of an output. Rename or drop the column before map_batches")
        return {**kept, **made}

    @staticmethod
    def arguments(
        model: Any,
        *,
        batch_size: int,
        num_cpus: float = 1,
        actors: int = 1,
        process: int = PROCESS,
        inputs: Mapping[str, str] | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """The parameters of Dataset.map_batches for Predictor, with num_cpus and memory for each of the actors.

        memory is the certificate's peak for batch_size rows, plus the bytes of the process itself. The program has as many
        threads as the actor has CPUs, unless threads is given. An actor whose program would take more refuses to start.
        """
        import ray.data

        options = _threads(options, num_cpus)
        peak = _peak(model, batch_size, options)
        return {
            "fn_constructor_args": (_absolute(model),),
            "fn_constructor_kwargs": {"batch_size": batch_size, "inputs": inputs, "peak": peak, **options},
            "batch_size": batch_size,
            "batch_format": "numpy",
            "num_cpus": num_cpus,
            "memory": peak + process,
            "compute": ray.data.ActorPoolStrategy(size=actors),
        }


def _threads(options: dict[str, Any], num_cpus: float) -> dict[str, Any]:
    return {"threads": max(1, math.ceil(num_cpus)), **options}


def _peak(model: Any, batch_size: int, options: Mapping[str, Any]) -> int:
    """The certificate's peak; the model is closed again."""
    held = worker(model, batch_size, **options)
    held.close()
    return held.peak


def _absolute(model: Any) -> Any:
    """A path that is valid in another folder of the same file system; bytes stay."""
    return model if isinstance(model, (bytes, bytearray, memoryview)) else os.path.abspath(os.fsdecode(model))


def deployment(
    model: Any,
    *,
    batch_size: int,
    num_cpus: float = 1,
    process: int = PROCESS,
    wait: float = 0.005,
    **options: Any,
) -> Any:
    """An application for ray.serve.run, with num_cpus and memory for each replica as Predictor.arguments gives them.

    A request is a dict with an array of rows for each input, and is answered by one with an array for each output; over HTTP
    both are JSON. Requests that arrive within wait seconds share a run, up to batch_size rows.
    """
    from ray import serve

    options = _threads(options, num_cpus)
    peak = _peak(model, batch_size, options)
    options = {"batch_size": batch_size, "peak": peak, **options}

    class Served:
        """A replica's program."""

        def __init__(self, model: Any, options: dict[str, Any]) -> None:
            self._worker = worker(model, **options)

        @serve.batch(  # type: ignore[untyped-decorator]
            max_batch_size=batch_size,
            batch_wait_timeout_s=wait,
            batch_size_fn=lambda requests: sum(min(len(arrays[0]), batch_size) for arrays in requests),
        )
        async def _run(self, requests: list[Any]) -> list[dict[str, Any]]:
            return await asyncio.to_thread(joined, self._worker, requests)

        async def __call__(self, request: Any) -> Any:
            from starlette.requests import Request

            if not isinstance(request, Request):
                return await self._run(self._worker.arrays(request))
            from starlette.responses import JSONResponse

            try:
                arrays = self._worker.arrays(_columns(await request.json(), self._worker))
            except (ValueError, TypeError) as error:  # an InputError is a ValueError
                return JSONResponse({"error": str(error)}, status_code=400)
            made = await self._run(arrays)
            return {name: array.tolist() for name, array in made.items()}

    served = serve.deployment(
        Served, name="Predictor", ray_actor_options={"num_cpus": num_cpus, "memory": peak + process}
    )
    return served.bind(_absolute(model), options)


def joined(held: Worker, requests: list[list[Any]]) -> list[dict[str, Any]]:
    """The answer to each request: its arrays in the order of inputs. Those with rows of the same shape share runs."""
    import numpy

    answers: list[dict[str, Any]] = [{} for _ in requests]
    alike: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for i, arrays in enumerate(requests):
        alike.setdefault(tuple(array.shape[1:] for array in arrays), []).append(i)
    for members in alike.values():
        names = [port.name for port in held.inputs]
        made = held.run({name: numpy.concatenate([requests[i][at] for i in members]) for at, name in enumerate(names)})
        start = 0
        for i in members:
            stop = start + len(requests[i][0])
            answers[i] = {name: array[start:stop] for name, array in made.items()}
            start = stop
    return answers


def _columns(body: Any, held: Worker) -> dict[str, Any]:
    """JSON's numbers as arrays of the inputs' types; texts stay."""
    import numpy

    if not isinstance(body, dict):
        raise InputError("the body of a request is a JSON object with an array of rows for each input")
    kinds = {port.name: NUMPY.get(port.dtype) for port in held.inputs}
    unknown = [name for name in body if name not in kinds]
    if unknown:
        raise InputError(f"there is no input {unknown[0]!r}; the inputs are {', '.join(map(str, held.inputs))}")
    made = {}
    for name, value in body.items():
        array, kind = numpy.asarray(value), kinds[name]
        if kind is None:
            made[name] = array.astype(object)
            continue
        whole = array.dtype.kind in "iu" and numpy.dtype(kind).kind in "iu"
        made[name] = array.astype(kind, casting="unsafe" if whole or not array.size else "same_kind")
        if whole and not (made[name] == array).all():
            raise InputError(f"the numbers for input {name!r} are outside of {kind}", tensor=name)
    return made
