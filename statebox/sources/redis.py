"""A keyring under one key of a Redis: `redis://host:6379/0?key=statebox:keyring` (extra `redis`)."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar, Final, cast, final
from urllib.parse import SplitResult, parse_qsl, quote, urlencode, urlsplit, urlunsplit

from statebox.errors import KeyringError

if TYPE_CHECKING:
    from redis import Redis

DEFAULT_KEY: Final = "statebox:keyring"


@final
class RedisReader:
    """The string under one key. Each read makes its own connection and shares it with nobody.

    Args:
        url: `redis://[user:password@]host[:port][/db][?key=NAME]`, or `rediss://` for TLS. The
            other parameters of the query are redis-py's. Without `key`: `statebox:keyring`.
        timeout: Seconds to connect, and to wait for each answer.

    Raises:
        KeyringError: It is no such URL.
    """

    interval: ClassVar[float] = 5.0
    reread_interval: ClassVar[float] = 1.0
    slow: ClassVar[bool] = True

    def __init__(self, url: str, *, timeout: float = 2.0) -> None:
        parts = _split(url)
        query = parse_qsl(parts.query, keep_blank_values=True)
        self.key = dict(query).get("key") or DEFAULT_KEY
        rest = urlencode([(name, value) for name, value in query if name != "key"])
        self._url = urlunsplit(parts._replace(query=rest))
        # Neither the user nor the password, nor any parameter but the key.
        place = parts.netloc.rpartition("@")[2] or "localhost"
        self.name = f"{parts.scheme}://{place}{parts.path}?key={quote(self.key, safe=':/')}"
        self._timeout = timeout

    def version(self) -> object:
        """Nothing tells before it is asked."""
        return None

    def read(self) -> bytes:
        """Ask for the value.

        Raises:
            KeyringError: The extra is missing, there is no answer, or no value.
        """
        with self.connection() as client:
            value = cast("bytes | None", client.get(self.key))
        if value is None:
            raise KeyringError(
                f"{self.name} holds nothing",
                hint="Put its copy back if there was one; or, for the first, "
                "`statebox keys init --keyring redis://...`.",
            )
        return value

    @contextmanager
    def connection(self) -> Generator[Redis]:
        """Connect for the length of a `with` block.

        Raises:
            KeyringError: The extra is missing, or the Redis refused something in the block.
        """
        try:
            import redis
        except ImportError:
            raise KeyringError(
                f"{self.name} needs redis-py, which is not installed",
                hint="pip install 'statebox[redis]'",
            ) from None
        try:
            with redis.Redis.from_url(  # pyright: ignore[reportUnknownMemberType] - its **kwargs
                self._url,
                socket_timeout=self._timeout,
                socket_connect_timeout=self._timeout,
                decode_responses=False,
            ) as client:
                yield client
        except (redis.RedisError, OSError, ValueError, TypeError) as error:
            # The class only: the message may repeat the URL, or what was stored.
            raise KeyringError(
                f"{self.name} gave no answer: {type(error).__name__}",
                hint="Look whether this Redis is up, and whether user and password are right.",
            ) from None


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises where it is no number
        # A `/`, `?` or `#` in a password ends the host early. What follows would be shown.
        if (
            re.fullmatch(r"(/[0-9]*)?", parts.path)
            and "@" not in parts.query
            and not parts.fragment
        ):
            return parts
    except ValueError:
        pass  # the same answer, without the text that was refused
    raise KeyringError(
        "the keyring's Redis URL is not of the form redis://host:port/0?key=NAME",
        hint="In a password, write `/` as %2F, `@` as %40, `#` as %23.",
    )
