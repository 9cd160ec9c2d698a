"""Functions that other libraries call when they release what they got from us.

Strategy
--------
A release comes at any time, in any thread: also when Python frees an object while an exception is on its way, as in
``f(polars.DataFrame(batch), 1 / 0)``. A function made by ctypes cannot be called then. It loses the exception, and an
interpreter that expects one crashes (seen in CPython 3.11 to 3.13). So each function here takes the exception first,
and sets it again last:

- A call of `ctypes.PyDLL` raises what is pending when it returns. The first statement of each function is such a call.
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

__all__ = ["callback", "release_callback"]

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

    def called(address: int, raise_pending: Callable[[], object] = _raise_pending) -> object:
        pending: BaseException | None = None
        try:
            raise_pending()  # the first call, because each call fails while an exception is pending
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is not ours
            pending = error
        if pending is None:
            function(address)
            return None
        try:
            function(address)
        except BaseException:  # noqa: BLE001 - the one that is on its way is the one to see
            sys.excepthook(*sys.exc_info())
        traceback = pending.__traceback__
        # Without the frame of this function.
        return _set_at_end(pending.with_traceback(None if traceback is None else traceback.tb_next))

    return callback(_Void, called)


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


_raise_pending = keep_for_ever(ctypes.PYFUNCTYPE(ctypes.c_int)(("Py_IsInitialized", ctypes.pythonapi)))

_set_error = keep_for_ever(
    ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.py_object)(("PyErr_SetObject", ctypes.pythonapi))
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

_exceptions: Final[dict[int, BaseException]] = keep_for_ever({})
"""By the id of an object: the exception that its call raises."""


def _call_of(pending: Any) -> Callable[[], None]:
    """Return a function that raises the exception of an object, and keep the object for the next one."""
    _unused.setdefault(get_ident(), []).append(pending)
    error = _exceptions.pop(id(pending))
    return partial(_set_error, type(error), error)


_Pending: Final = keep_for_ever(_pending_type())


def _set_at_end(error: BaseException) -> Any:
    """Return an object that raises an exception when its last reference goes."""
    unused = _unused.get(get_ident())
    pending = unused.pop() if unused else _Pending()
    _exceptions[id(pending)] = error
    return pending
