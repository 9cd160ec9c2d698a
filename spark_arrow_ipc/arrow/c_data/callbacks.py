"""Functions that other libraries call when they release what they got from us.

Strategy
--------
A release comes at any time, in any thread: also when Python frees an object while an exception is on its way, as in
``f(polars.DataFrame(batch), 1 / 0)``. A function made by ctypes cannot be called then. It loses the exception, and an
interpreter that expects one crashes (seen in CPython 3.11 to 3.14). So each function here takes the exception first,
and sets it again last:

- From Python 3.12 on the garbage collector may run where a Python function begins, and drops the exception. So what
  ctypes calls is a function of C, ``PyErr_GetRaisedException``, and the Python function is its `errcheck`, which ctypes
  calls after it. Where that cannot be, as in Python 3.11, a Python function is called, whose first statement is a call of
  `ctypes.PyDLL`: it raises what is pending when it returns.
- No function called by ctypes can return with an exception. But ctypes drops the function's result as its last step:
  the result is then an object whose deallocator is a C function that raises the exception again (`_Pending`).

The functions and what they need are never freed: a library may release what it holds when the process ends.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import partial
from threading import get_ident
from typing import Any, Final

from spark_arrow_ipc.arrow.c_data.structs import keep_for_ever

_Void = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def callback(prototype: Any, function: Callable[..., Any]) -> int:
    """Return the address of a C function that calls a Python function, and is never freed."""
    return _address(keep_for_ever(prototype(function)))


def release_callback(function: Callable[[int], None]) -> int:
    """Return the address of a C function with one pointer as its parameter, which may be called at any time.

    Parameters
    ----------
    function
        Takes the pointer. Its exceptions are reported to `sys.unraisablehook`, as those of ``__del__`` are.
    """
    if not _takes_first:
        return callback(_Void, _raising_first(function))

    def after(pending: int | None, _: object, arguments: tuple[int]) -> object:
        if pending is None:
            function(arguments[0])
            return None
        _report_errors(function, arguments[0])
        return _set_at_end(partial(_set_raised, pending))

    take: Any = ctypes.PYFUNCTYPE(ctypes.c_void_p)((_TAKE, ctypes.pythonapi))
    take.errcheck = after
    return callback(_Void, take)


def _raising_first(function: Callable[[int], None]) -> Callable[[int], object]:
    """Return a Python function for a callback, which calls a function between taking and setting an exception."""

    def called(address: int, raise_pending: Callable[[], object] = _raise_pending) -> object:
        pending: BaseException | None = None
        try:
            raise_pending()  # the first call, because each call fails while an exception is pending
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is not ours
            pending = error
        if pending is None:
            function(address)
            return None
        _report_errors(function, address)
        traceback = pending.__traceback__
        # Without the frame of this function.
        pending = pending.with_traceback(None if traceback is None else traceback.tb_next)
        return _set_at_end(partial(_set_error, type(pending), pending))

    return called


def _report_errors(function: Callable[[int], None], address: int) -> None:
    """Call a function and print its exception, because another one is on its way, which is the one to see."""
    try:
        function(address)
    except BaseException:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


_raise_pending = keep_for_ever(ctypes.PYFUNCTYPE(ctypes.c_int)(("Py_IsInitialized", ctypes.pythonapi)))

_set_error = keep_for_ever(
    ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.py_object)(("PyErr_SetObject", ctypes.pythonapi))
)

_TAKE: Final = "PyErr_GetRaisedException"
_takes_first = (
    hasattr(ctypes.pythonapi, _TAKE)
    # It is called with the address as an argument that it does not have: of the type `long`, which must hold it, and
    # where C does not mind.
    and ctypes.sizeof(ctypes.c_long) == ctypes.sizeof(ctypes.c_void_p)
    and sys.platform != "emscripten"
)
"""Whether an exception is taken before a Python function begins."""

if _takes_first:
    # It takes over the reference that `_TAKE` gave.
    _set_raised = keep_for_ever(
        ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(("PyErr_SetRaisedException", ctypes.pythonapi))
    )


class _Slot(ctypes.Structure):
    _fields_ = (("slot", ctypes.c_int), ("function", ctypes.c_void_p))


class _Spec(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    )


_TP_DEALLOC: Final = 52
"""``Py_tp_dealloc`` of CPython's stable ABI (typeslots.h)."""


def _pending_type() -> Any:
    """Return a type whose objects are called when their last reference goes, and are not freed.

    Its deallocator is ``PyObject_CallNoArgs``, which leaves the exception that the call raises.
    """
    slots = (_Slot * 2)(_Slot(_TP_DEALLOC, _address(ctypes.pythonapi.PyObject_CallNoArgs)), _Slot(0, None))
    spec = _Spec(b"spark_arrow_ipc.Pending", object.__basicsize__, 0, 0, slots)
    from_spec = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.POINTER(_Spec))(("PyType_FromSpec", ctypes.pythonapi))
    type_ = from_spec(ctypes.byref(spec))
    # A property, so that the call itself is one in C, and adds no frame to the traceback.
    type_.__call__ = property(_call_of)
    return type_


_unused: Final[dict[int, list[Any]]] = keep_for_ever({})
"""By thread: objects that were called, for the next time. One thread uses them one after the other."""

_raisers: Final[dict[int, Callable[[], None]]] = keep_for_ever({})
"""By the id of an object: what its call calls."""


def _call_of(pending: Any) -> Callable[[], None]:
    """Return a function that raises the exception of an object, and keep the object for the next one."""
    _unused.setdefault(get_ident(), []).append(pending)
    return _raisers.pop(id(pending))


_Pending: Final = keep_for_ever(_pending_type())


def _set_at_end(set_exception: Callable[[], None]) -> Any:
    """Return an object that calls a function of C, which sets an exception, when its last reference goes."""
    unused = _unused.get(get_ident())
    pending = unused.pop() if unused else _Pending()
    _raisers[id(pending)] = set_exception
    return pending
