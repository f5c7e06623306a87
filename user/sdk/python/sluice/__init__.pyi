# SPDX-License-Identifier: Apache-2.0
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar, final, overload

_T = TypeVar("_T")
_Headers: TypeAlias = Mapping[str, str | bytes] | Iterable[tuple[str, str | bytes]]

# Whatever has the buffer protocol: it has a name of its own from Python 3.12 on only.
class _HasBuffer(Protocol):
    def __buffer__(self, flags: int, /) -> memoryview: ...

class _IsArray(Protocol):
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

_Buffer: TypeAlias = bytes | bytearray | memoryview | _HasBuffer | _IsArray

@final
class Request:
    @property
    def body(self) -> memoryview: ...
    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def query(self) -> str: ...
    @property
    def content_type(self) -> str: ...
    @property
    def headers(self) -> list[tuple[str, str]]: ...
    @property
    def trailers(self) -> list[tuple[str, str]]: ...
    @property
    def protocol(self) -> int: ...
    @property
    def priority(self) -> int: ...
    @property
    def budget_us(self) -> int: ...
    @property
    def arrived_ns(self) -> int: ...
    @property
    def idempotent(self) -> bool: ...
    @property
    def expects(self) -> bool: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def cancelled(self) -> bool: ...
    @overload
    def header(self, __name: str, __default: None = None) -> str | None: ...
    @overload
    def header(self, __name: str, __default: _T) -> str | _T: ...
    def reply(
        self,
        body: _Buffer = b"",
        /,
        *,
        status: int = 200,
        content_type: str | None = None,
        headers: _Headers | None = None,
        trailers: _Headers | None = None,
        grpc_status: int = 0,
        grpc_message: str | None = None,
        more: bool = False,
        no_message: bool = False,
    ) -> bool: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Batch(list[Request]):
    def reply(
        self,
        array: _Buffer,
        *,
        status: int = 200,
        content_type: str | None = None,
        headers: _Headers | None = None,
        trailers: _Headers | None = None,
        grpc_status: int = 0,
        grpc_message: str | None = None,
    ) -> None: ...

class Stream:
    request: Request
    def __init__(self, request: Request) -> None: ...
    def __aiter__(self) -> Stream: ...
    async def __anext__(self) -> bytes: ...
    async def go_on(self) -> None: ...
    async def reply(
        self,
        body: _Buffer = b"",
        *,
        status: int = 200,
        content_type: str | None = None,
        headers: _Headers | None = None,
        trailers: _Headers | None = None,
        grpc_status: int = 0,
        grpc_message: str | None = None,
        more: bool = False,
        no_message: bool = False,
    ) -> bool: ...

class Backend:
    def __init__(
        self,
        listen: str,
        handler: Callable[[Batch], Any] | None = None,
        stream: Callable[[Stream], Coroutine[Any, Any, Any]] | None = None,
        *,
        max_batch: int = 0,
        key_file: str | None = None,
        busy_poll: bool = False,
        bulk_ring_len: int = 0,
        upgrades: bool = False,
    ) -> None: ...
    def run(self) -> None: ...
    def __aiter__(self) -> AsyncIterator[Batch]: ...
    def stop(self) -> None: ...
    def ready(self, ready: bool, /) -> None: ...
    def stats(self) -> dict[str, int]: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...
    def __enter__(self) -> Backend: ...
    def __exit__(self, *unused: object) -> None: ...
