"""Single use over a fleet: all replicas share one Redis or Valkey (extra `redis`)."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar, cast, final

from statebox.errors import GuardUnavailableError
from statebox.replay.guard import DEFAULT_TIMEOUT, KEPT_AFTER_EXPIRY, forgotten, late

if TYPE_CHECKING:
    from redis.asyncio import Redis

_CONNECTIONS: Final = 16
_REPLAYED: Final = 0
_SPENT: Final = 1
_T = TypeVar("_T")

# One script, so that looking whether the memory is whole and spending the id are one step.
#
# What Redis remembers has a beginning. It is kept beside the run id of the server process and its
# count of evicted keys. If either is another one now, ids may have been lost, and the memory begins
# anew: restarts without the last writes, a replica that took over, and keys dropped to make room all
# show there. If there is no such record, the guard that asks may know the Redis from before, or be
# older than it, and then it may have been emptied; or the Redis is new, and its memory begins with
# the process. Redis tells that moment in whole seconds, as a token tells when it was sealed. It may
# have been at the end of that second, so the memory vouches for tokens of the next one at first.
#
# KEYS: the id; the record. ARGV: seconds to keep the id; the token's age in seconds; whether that
# age is certain; seconds to distrust clocks by; the state that this guard saw last; whether
# restarts lose nothing; who asks, so that one who has to ask twice is known again; how long ago this
# guard was made, in seconds.
_SCRIPT: Final = """
local by = redis.call('GET', KEYS[1])
if by then return {by == ARGV[7] and 1 or 0, ARGV[5]} end
local server = redis.call('INFO', 'server')
local run = string.match(server, 'run_id:(%w+)')
local state = run .. ':' .. string.match(redis.call('INFO', 'stats'), 'evicted_keys:(%d+)')
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
local record = redis.call('HMGET', KEYS[2], 'state', 'since', 'lost')
local since, lost = tonumber(record[2]), record[3]
if record[1] ~= state then
  local always_first =
    string.find(redis.call('INFO', 'replication'), 'second_repl_offset:-1', 1, true)
  local restarted = always_first and record[1] and string.sub(record[1], 1, #run) ~= run
  local start = clock[1] - string.match(server, 'uptime_in_seconds:(%d+)')
  if always_first and not record[1] and ARGV[5] == '' and now - ARGV[8] >= start then
    since, lost = start + 0.5, '0'
  elseif not (restarted and ARGV[6] == '1') then
    since, lost = now, '1'
  end
  redis.call('HSET', KEYS[2], 'state', state, 'since', string.format('%.6f', since), 'lost', lost)
end
if lost == '1' and ARGV[2] + ARGV[4] >= now - since
    or ARGV[3] == '1' and tonumber(ARGV[2]) >= now - since then
  return {2, state}
end
redis.call('SET', KEYS[1], ARGV[7], 'NX', 'EX', ARGV[1])
return {1, state}
"""


@final
class RedisGuard:
    """Remembers spent tokens in a Redis, for all replicas of a fleet.

    One command a token. A Redis that lost ids (it was restarted without its last writes, a replica
    took over, it dropped keys to make room, somebody emptied it) makes no second winner: tokens
    sealed before the loss are refused as `guard_unavailable`, those sealed after it are served.
    Nothing has to be restarted.

    The Redis needs `maxmemory-policy noeviction`, or it will lose ids; a user with an ACL needs
    `+eval +get +info +time +hmget +hset +set` on the keys of the prefix.

    Args:
        url: `redis://[user:password@]host[:port][/db]`, `rediss://` for TLS, or `unix://path`; its
            query may hold redis-py's other parameters.
        prefix: What the keys begin with.
        timeout: After how many seconds without an answer a token is refused.
        leeway: How far the clocks of the replicas and of the Redis may differ, in seconds. After
            a loss, tokens are served again that were sealed that long after it.
        durable: Set it if this Redis has `appendonly yes` and `appendfsync always`, so that a
            restart loses nothing and no flow has to start again for one.
        clock: Gives the time in seconds since 1970.

    Raises:
        ImportError: The extra is not installed.
        ValueError: It is no such URL.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "statebox:",
        timeout: float = DEFAULT_TIMEOUT,
        leeway: float = 1.0,
        durable: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.timeout = timeout
        self._url = url
        self._prefix = prefix
        self._leeway = leeway
        self._durable = int(durable)
        self._clock = clock
        self._state = ""
        self._made = time.monotonic()
        self._longest = 0.0
        # A wrong URL fails here. No connection is opened yet.
        self._client: Redis | None = self._make()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def consume(self, token_id: str, expires_at: int, issued_at: int | None = None) -> bool:
        """Spend a token; see `ReplayGuard`.

        Args:
            token_id: 32 hex digits that name the token.
            expires_at: When the token ends, in seconds since 1970.
            issued_at: When it was sealed, in seconds since 1970. None: not known; after a loss it
                is then taken to have lived as long as the longest-lived token that was seen.

        Returns:
            True the first time, False ever after.

        Raises:
            GuardUnavailableError: The token is older than what the Redis remembers; the Redis is
                down, full or read-only, or it took too long.
        """
        now = self._clock()
        left = expires_at - now
        if left <= -KEPT_AFTER_EXPIRY:
            return False  # its id may be gone by now
        self._longest = max(self._longest, left)
        age = self._longest - left if issued_at is None else now - issued_at
        arguments: list[str | int | float] = [
            self._prefix + "spent:" + token_id,
            self._prefix + "memory",
            # A duration: how right the clock of the Redis is does not matter.
            int(left) + KEPT_AFTER_EXPIRY + 1,
            age,
            int(issued_at is not None),
            self._leeway,
            self._state,
            self._durable,
            secrets.token_hex(8),
            time.monotonic() - self._made,
        ]
        outcome, state = await self._ask(
            lambda client: cast("Awaitable[tuple[int, bytes]]", client.eval(_SCRIPT, 2, *arguments))
        )
        self._state = state.decode()
        if outcome == _SPENT:
            return True
        if outcome == _REPLAYED:
            return False
        raise forgotten("the guard's Redis")

    async def put(self, token_id: str, answer: bytes, expires_at: int) -> None:
        """Keep the answer to a token; see `AnswerStore`."""
        left = int(expires_at - self._clock()) + KEPT_AFTER_EXPIRY
        if left > 0:
            name = self._prefix + "answer:" + token_id
            await self._ask(lambda client: client.set(name, answer, nx=True, ex=left))

    async def get(self, token_id: str) -> bytes | None:
        """Give the answer to a token, or None; see `AnswerStore`."""
        name = self._prefix + "answer:" + token_id
        return await self._ask(lambda client: cast("Awaitable[bytes | None]", client.get(name)))

    async def aclose(self) -> None:
        """Close the connections. The guard opens new ones if it is used again."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _ask(self, command: Callable[[Redis], Awaitable[_T]]) -> _T:
        from redis import RedisError

        try:
            async with asyncio.timeout(self.timeout):
                return await command(self._connection())
        except TimeoutError as error:
            raise late(self.timeout) from error
        except (RedisError, OSError) as error:
            # The class and Redis's own word for it; the rest may repeat the address.
            raise GuardUnavailableError(
                f"the guard's Redis gave no answer: {_said(error)}",
                hint="Look whether this Redis is up, not full, and may be written to.",
            ) from error

    def _connection(self) -> Redis:
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            # Connections belong to the event loop that they were made in.
            self._client, self._loop = self._make(), loop
        return self._client

    def _make(self) -> Redis:
        try:
            from redis.asyncio import BlockingConnectionPool, Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError:
            raise ImportError(
                'a RedisGuard needs redis-py: pip install "statebox[redis]"', name="redis"
            ) from None
        pool = BlockingConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType] - its **kwargs
            self._url,
            max_connections=_CONNECTIONS,
            timeout=self.timeout,
            socket_timeout=self.timeout,
            socket_connect_timeout=self.timeout,
            # Once more on a new connection, as the old one is of before a restart. Who asks is the
            # same then, so an id that the first try spent is not taken for another's.
            retry=Retry(NoBackoff(), 1),
            decode_responses=False,
        )
        return Redis.from_pool(pool)


def _said(error: Exception) -> str:
    word = str(error).partition(" ")[0]
    return f"{type(error).__name__} {word}" if word.isupper() else type(error).__name__
