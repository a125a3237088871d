"""Conditions over random schemas: the stage finds what the engine finds, which is what the rule says."""

from __future__ import annotations

import asyncio
import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pymilvus import DataType, MilvusClient

from pipeline.adapters.milvus_collection import MilvusCollection, read_shape
from pipeline.adapters.milvus_conditions import row_filter
from pipeline.adapters.milvus_filter import MetadataLayout
from pipeline.errors import SearchRejected
from pipeline.model import Condition, Scalar
from pipeline.testing.search_port import NASTY, TIMEOUT_S, asking, field_is
from tests.adapters.milvus import connected, searching, unique_name

BITS = {DataType.INT8: 8, DataType.INT16: 16, DataType.INT32: 32, DataType.INT64: 64}
NUMBERS = (*BITS, DataType.FLOAT, DataType.DOUBLE)
KINDS = (DataType.BOOL, *NUMBERS, DataType.VARCHAR, DataType.JSON, DataType.ARRAY)
VECTOR = (1.0, 0.0)
CAPACITY = 4
LENGTH = 4_000

Row: TypeAlias = Mapping[str, Any]
Found: TypeAlias = set[int] | None
"""Places of the rows that are found; `None` where the filter is refused."""

TEXTS = st.sampled_from([*NASTY, "a", "A", "a ", "0", "1"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=8
)
EDGES = [sign * 2**bits + step for bits in (7, 15, 24, 31, 53) for step in (-1, 0, 1) for sign in (1, -1)]
INTEGERS = st.sampled_from([*EDGES, 2**63 - 1, 1 - 2**63, -(2**63)]) | st.integers(-3, 3)
FLOATS = st.sampled_from(
    [0.1, -0.0, 1.5, 1e-45, 5e-324, 3.4e38, 1e300, 2.0**53, 2.0**24, 2.0**63, -2.5e-7, 1e16]
) | st.floats(allow_nan=False, allow_infinity=False)
HIGHEST_FLOAT = 3.4e38
SCALARS: st.SearchStrategy[Scalar] = st.booleans() | TEXTS | INTEGERS | FLOATS
ODD = st.none() | st.lists(st.integers(0, 1), max_size=2) | st.just({"a": 1})


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of a schema."""

    kind: DataType
    nullable: bool = False
    partition_key: bool = False


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A collection with its rows, in order, and the filters to ask for.

    Attributes:
        fields: With the flat layout, the fields of the schema.
        indexed: Whether they have indexes of their own.
    """

    layout: MetadataLayout
    fields: Mapping[str, Field]
    dynamic: bool
    indexed: bool
    rows: Sequence[Row]
    filters: Sequence[Sequence[Condition]]


def stored(kind: DataType) -> st.SearchStrategy[Any]:
    """Return values that a field of the type can hold."""
    if kind in BITS:
        half = 2 ** (BITS[kind] - 1)
        return INTEGERS.filter(lambda value: -half <= value < half)
    return {
        DataType.BOOL: st.booleans(),
        DataType.FLOAT: FLOATS.filter(lambda value: abs(value) <= HIGHEST_FLOAT),
        DataType.DOUBLE: FLOATS,
        DataType.VARCHAR: TEXTS,
        DataType.JSON: st.dictionaries(st.sampled_from(["a", "b"]), SCALARS | st.none(), max_size=2),
        DataType.ARRAY: st.lists(st.integers(-3, 3), max_size=CAPACITY),
    }[kind]


@st.composite
def trials(draw: st.DrawFn, *, lite: bool) -> Trial:
    """Return trials for Milvus Lite, which knows nullable fields and index any, or for a server."""
    layout: MetadataLayout = draw(st.sampled_from(["flat", "flat", "field"]))
    fields = draw(schemas(nullable=lite)) if layout == "flat" else {}
    dynamic = layout == "flat" and draw(st.booleans())
    pools: dict[str, list[Any]] = {
        name: draw(st.lists(stored(field.kind), min_size=1, max_size=3)) + [None] * field.nullable
        for name, field in fields.items()
    }
    if dynamic or layout == "field":
        for name in ("any", "a-b.c", "true"):
            pools[name] = draw(st.lists(SCALARS | ODD, min_size=1, max_size=4))
    row = st.fixed_dictionaries({name: st.sampled_from(pool) for name, pool in pools.items()})
    return Trial(
        layout=layout,
        fields=fields,
        dynamic=dynamic,
        indexed=lite and draw(st.booleans()),
        rows=draw(st.lists(row, min_size=1, max_size=8)),
        filters=draw(st.lists(filters(pools), min_size=8, max_size=16)),
    )


@st.composite
def schemas(draw: st.DrawFn, *, nullable: bool) -> dict[str, Field]:
    """Return the fields of a schema."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=4, max_size=8))
    fields = {
        f"f{place}": Field(kind=kind, nullable=nullable and draw(st.booleans()))
        for place, kind in enumerate(kinds)
    }
    if draw(st.booleans()):
        fields["part"] = Field(
            kind=draw(st.sampled_from([DataType.VARCHAR, DataType.INT64])), partition_key=True
        )
    return fields


@st.composite
def filters(draw: st.DrawFn, pools: Mapping[str, Sequence[Any]]) -> Sequence[Condition]:
    """Return filters that rows often satisfy: on one or two fields, with values near those that rows have."""
    names = st.sampled_from([*pools, *pools, "id", "text", "vector", "none"])
    return [
        field_is(name, *draw(values(pools.get(name, [0, "content 0"]))))
        for name in draw(st.lists(names, min_size=1, max_size=2, unique=True))
    ]


def values(pool: Sequence[Any]) -> st.SearchStrategy[list[Scalar]]:
    """Return lists of values, mostly of the pool or equal to such a one in another form."""
    near: list[Scalar] = []
    for value in pool:
        if isinstance(value, str | int | float):
            near.append(value)
        if isinstance(value, int) and not isinstance(value, bool):
            near += [float(value), value + 1]
        elif isinstance(value, float):
            near += [math.nextafter(value, 0), *([int(value)] if value.is_integer() else [])]
            if abs(value) <= HIGHEST_FLOAT:
                near.append(ctypes.c_float(value).value)
    return st.lists(st.sampled_from(near) if near else SCALARS, min_size=1, max_size=3) | st.lists(
        SCALARS, min_size=1, max_size=3
    )


def edges() -> Trial:
    """Return a trial of the values at which engines differ from one another, or from the rule."""
    pools: dict[str, tuple[Any, ...]] = {
        "f": (0.1, 2.0**24, -0.0, 3.4e38, 1e-45, 2.0**25),
        "d": (0.1, 2.0**53, 1e300, 5e-324, -0.0, 2.0**63),
        "i8": (-128, 127, 0, 1, -1, 2),
        "i64": (-(2**63), 2**63 - 1, 2**53 + 1, 2**53, 0, 1),
        "part": (-(2**63), 0, 1, 2, 3, 4),
        "any": (True, 1, 1.0, "1", None, [1]),
        "true": (-(2**63), 2**53 + 1, 2.0**53, 0.1, {"a": 1}, 2.0**63),
    }
    kinds = (DataType.FLOAT, DataType.DOUBLE, DataType.INT8, DataType.INT64, DataType.INT64)
    fields = {
        name: Field(kind=kind, partition_key=name == "part") for name, kind in zip(pools, kinds, strict=False)
    }
    wanted: list[Scalar] = [
        *(0.1, ctypes.c_float(0.1).value, 2**24, 2**24 + 1, 0, -0.0, 3.4e38, 3.5e38, 1e-45, 2**25, 5e-324),
        *(2**53, 2**53 + 1, 2.0**53, 1e300, 2.0**63, 128, -128.0, 255, 1.5, 1, 1.0, True, "1"),
        *(-(2**63), -(2.0**63), 2**63 - 1, 2**63),
    ]
    rows = [{name: pool[place] for name, pool in pools.items()} for place in range(6)]
    filters = [[field_is(name, value)] for name in pools for value in wanted]
    return Trial(layout="flat", fields=fields, dynamic=True, indexed=False, rows=rows, filters=filters)


def expected(trial: Trial, conditions: Sequence[Condition]) -> Found:
    """Return what is found, with none of the product's code."""
    if any(is_refused(trial, condition) for condition in conditions):
        return None
    return {
        place
        for place in range(len(trial.rows))
        if all(
            any(equal(value, wanted, kind_of(trial, condition.field)) for wanted in condition.any_of)
            for condition in conditions
            for value in [row_of(trial, place).get(condition.field)]
        )
    }


def row_of(trial: Trial, place: int) -> Row:
    """Return all that conditions can name of a row."""
    row = trial.rows[place]
    return row if trial.layout == "field" else {**row, "id": place, "text": f"content {place}"}


def kind_of(trial: Trial, name: str) -> DataType | None:
    """Return a field's type, or nothing for one in JSON or a dynamic one."""
    own = {"id": DataType.INT64, "text": DataType.VARCHAR, "vector": DataType.FLOAT_VECTOR}
    if trial.layout == "field":
        return None
    return own[name] if name in own else trial.fields[name].kind if name in trial.fields else None


def is_refused(trial: Trial, condition: Condition) -> bool:
    """Return whether a condition is refused: no such field, or none that is compared with the value."""
    kind = kind_of(trial, condition.field)
    if kind is None:
        beyond = any(isinstance(value, int) and not -(2**63) <= value < 2**63 for value in condition.any_of)
        return beyond or (trial.layout == "flat" and not trial.dynamic)
    if kind in NUMBERS:
        return any(isinstance(value, bool | str) for value in condition.any_of)
    allowed = {DataType.BOOL: bool, DataType.VARCHAR: str}.get(kind)
    return allowed is None or not all(isinstance(value, allowed) for value in condition.any_of)


def equal(value: object, wanted: Scalar, kind: DataType | None) -> bool:
    """Return whether a row's value, as it was written, equals a filter's."""
    if kind in (DataType.FLOAT, DataType.DOUBLE) and isinstance(value, float):
        width = ctypes.c_float if kind == DataType.FLOAT else ctypes.c_double
        number = width(float(wanted)).value
        return width(value).value == number and math.isfinite(number)
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, str) or isinstance(wanted, str):
        return isinstance(value, str) and value == wanted
    return isinstance(value, int | float) and value == wanted


def create(client: Any, name: str, trial: Trial) -> None:
    """Make the trial's collection and fill it."""
    schema = MilvusClient.create_schema(auto_id=False, enable_dynamic_field=trial.dynamic)
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=len(VECTOR))
    schema.add_field("text", DataType.VARCHAR, max_length=LENGTH)
    for field, described in trial.fields.items():
        options: dict[str, Any] = {"max_length": LENGTH} if described.kind == DataType.VARCHAR else {}
        if described.kind == DataType.ARRAY:
            options = {"element_type": DataType.INT64, "max_capacity": CAPACITY}
        if described.nullable:
            options["nullable"] = True
        if described.partition_key:
            options["is_partition_key"] = True
        schema.add_field(field, described.kind, **options)
    if trial.layout == "field":
        schema.add_field("metadata", DataType.JSON)
    index = MilvusClient.prepare_index_params()
    index.add_index("vector", index_type="FLAT", metric_type="L2")
    for field, described in trial.fields.items():
        if trial.indexed and described.kind not in (DataType.JSON, DataType.ARRAY):
            index.add_index(field, index_type="INVERTED")
    partitions = {"num_partitions": 4} if "part" in trial.fields else {}
    client.create_collection(name, schema=schema, index_params=index, **partitions)
    rows = [
        {"id": place, "vector": list(VECTOR), "text": f"content {place}", **fields}
        for place, row in enumerate(trial.rows)
        for fields in [{"metadata": row} if trial.layout == "field" else row]
    ]
    client.insert(name, rows)
    if trial.indexed:
        client.flush(name)
    # Nothing is searched before every row is there.
    client.query(name, filter="", output_fields=["count(*)"], consistency_level="Strong")


def check(uri: str, trial: Trial) -> None:
    """Compare what the stage finds with the rule, and with what the engine finds by itself."""
    collection = MilvusCollection(
        uri=uri, collection=unique_name(), content_field="text", metadata_layout=trial.layout
    )
    with connected(collection) as client:
        create(client, collection.collection, trial)
        try:
            answers = asyncio.run(found_by_stage(collection, trial.filters))
            shape = read_shape(client.describe_collection(collection.collection), collection)
            for conditions, found in zip(trial.filters, answers, strict=True):
                assert found == expected(trial, conditions), conditions
                if found is not None:
                    wanted = row_filter(conditions, collection, shape)
                    own = ids_of(client, collection, wanted.expression) if wanted.satisfiable else set()
                    in_schema = all(kind_of(trial, each.field) is not None for each in conditions)
                    # In JSON engines take some values for others, such as `true` for `1`.
                    assert found == own if in_schema else found <= own, conditions
        finally:
            client.drop_collection(collection.collection)


async def found_by_stage(collection: MilvusCollection, filters: Sequence[Sequence[Condition]]) -> list[Found]:
    """Search under each filter."""
    answers: list[Found] = []
    async with searching(collection) as port:
        for conditions in filters:
            try:
                hits = await port.search(asking(*conditions, vector=VECTOR), timeout_s=TIMEOUT_S)
            except SearchRejected:
                answers.append(None)
            else:
                answers.append({int(str(hit.id)) for hit in hits})
    return answers


def ids_of(client: Any, collection: MilvusCollection, expression: str) -> set[int]:
    """Return the rows that the engine finds for an expression."""
    rows = client.query(collection.collection, filter=expression, output_fields=["id"], limit=1_000)
    return {row["id"] for row in rows}


@pytest.fixture(scope="module")
def lite_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a file of Milvus Lite."""
    return str(tmp_path_factory.mktemp("lite") / "conditions.db")


# A collection is made in half a second in Milvus Lite, and in three in a server, whose clock ticks slowly.
@pytest.mark.timeout(600)
@settings(max_examples=max(settings().max_examples // 3, 1), report_multiple_bugs=False)
@example(trial=edges())
@given(trial=trials(lite=True))
def test_stage_finds_what_milvus_lite_finds(lite_uri: str, trial: Trial) -> None:
    """For random schemas, rows and filters."""
    check(lite_uri, trial)


@pytest.mark.milvus
@pytest.mark.timeout(600)
@settings(max_examples=max(settings().max_examples // 10, 1), report_multiple_bugs=False)
@example(trial=edges())
@given(trial=trials(lite=False))
def test_stage_finds_what_a_milvus_server_finds(milvus_uri: str, trial: Trial) -> None:
    """The same in the server."""
    check(milvus_uri, trial)
