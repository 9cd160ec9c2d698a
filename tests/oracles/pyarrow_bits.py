"""The slots of pyarrow's arrays as Python objects that are equal only if their bits are, for arrays of every type.

`to_pylist` will not do: it takes NaNs of other bits and zeros of both signs for equal, instants when clocks go back, and
shows one of two fields that share a name. Slots of dictionaries and runs are what they stand for.
"""

import numpy as np
import pyarrow as pa

BINARY = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_map)
LIST_VIEWS = (pa.types.is_list_view, pa.types.is_large_list_view)


def batches_of(data):
    """Return the record batches that pyarrow reads of a file or stream."""
    if not data.startswith(b"ARROW1"):
        return list(pa.ipc.open_stream(data))
    reader = pa.ipc.open_file(data)
    return [reader.get_batch(i) for i in range(reader.num_record_batches)]


def of_batches(batches):
    """Return the bits of each column of record batches of any library; None if pyarrow cannot have them.

    It has no arrays of two kinds of intervals (a KeyError), and takes no run ends directly inside of run ends.
    """
    try:
        return [[bits(column) for column in pa.record_batch(batch).columns] for batch in batches]
    except KeyError:
        return None
    except pa.ArrowInvalid as error:
        if "nested run-end encoded" not in str(error):
            raise
        return None


def is_any(type_, kinds):
    return any(kind(type_) for kind in kinds)


def bits(array):
    """Return one object for each slot; None for a null."""
    type_ = array.type
    if isinstance(array, pa.ExtensionArray):
        return bits(array.storage)
    if pa.types.is_null(type_):
        return [None] * len(array)
    if pa.types.is_dictionary(type_):
        values = bits(array.dictionary)
        return [None if i is None else values[i] for i in array.indices.to_pylist()]
    if pa.types.is_run_end_encoded(type_):
        values, ends = bits(array.values), np.array(array.run_ends)
        return [values[i] for i in np.searchsorted(ends, np.arange(len(array)) + array.offset, "right")]
    if pa.types.is_union(type_):
        return of_union(array)
    slots = of_valid(array)
    return [slot if valid else None for slot, valid in zip(slots, array.is_valid().to_pylist(), strict=True)]


def of_union(array):
    # Of a slice `type_codes` and `offsets` give those of the first slots; the members of a sparse union are sliced.
    own = slice(array.offset, array.offset + len(array))
    buffers, members = array.buffers(), [bits(array.field(i)) for i in range(array.type.num_fields)]
    codes = np.frombuffer(buffers[1] or b"", np.int8)[own].tolist()
    is_dense = array.type.mode == "dense"
    places = np.frombuffer(buffers[2] or b"", np.int32)[own].tolist() if is_dense else range(len(array))
    return [
        (code, members[array.type.type_codes.index(code)][place]) for code, place in zip(codes, places, strict=True)
    ]


def of_valid(array):
    """Return one object for each slot; for a null anything."""
    type_ = array.type
    if pa.types.is_struct(type_):
        members = [bits(array.field(i)) for i in range(type_.num_fields)]
        return list(zip(*members, strict=True)) if members else [()] * len(array)
    if is_any(type_, LISTS):
        ends = np.array(array.offsets)
        return of_ranges(array.values, ends[:-1], ends[1:])
    if is_any(type_, LIST_VIEWS):
        starts = np.array(array.offsets)
        return of_ranges(array.values, starts, starts + np.array(array.sizes))
    if pa.types.is_fixed_size_list(type_):
        starts = (array.offset + np.arange(len(array))) * type_.list_size
        return of_ranges(array.values, starts, starts + type_.list_size)
    if pa.types.is_boolean(type_):
        return array.to_pylist()
    if is_any(type_, BINARY):
        return array.to_pylist()
    if is_any(type_, TEXT):
        return [None if value is None else value.encode() for value in array.to_pylist()]
    width = type_.bit_width // 8
    data = memoryview(array.buffers()[1] or b"")
    starts = range(array.offset * width, (array.offset + len(array)) * width, width) if width else [0] * len(array)
    return [bytes(data[start : start + width]) for start in starts]


def of_ranges(values, starts, stops):
    elements = bits(values)
    return [tuple(elements[start:stop]) for start, stop in zip(starts, stops, strict=True)]
