"""Single use: a token that was spent is refused, whoever presents it again.

A seal proves where a token comes from; it cannot prove that it comes for the first time. That takes
a memory, and a `ReplayGuard` is one:

* `MemoryGuard()`: a server of one process.
* `SQLiteGuard(path)`: all processes of one machine.
* `RedisGuard(url)`: a fleet (extra `redis`).
* your own: `async consume(token_id, expires_at) -> bool`, see `ReplayGuard`.

`statebox.mcp` takes one as `guard=`. Elsewhere, spend a token right after it was opened:

    turn = box.open(token, principal=user, request=request)
    await spend(guard, turn)
    ...  # what may happen once only

**A guard that cannot tell refuses.** A store that is down, full or slow, and a store that may have
forgotten the token, raise `GuardUnavailableError`. No failure makes a second winner; some make a
token that nobody can use any more.
"""

from statebox.replay.guard import AnswerStore as AnswerStore
from statebox.replay.guard import ReplayGuard as ReplayGuard
from statebox.replay.guard import spend as spend
from statebox.replay.memory import MemoryGuard as MemoryGuard
from statebox.replay.redis import RedisGuard as RedisGuard
from statebox.replay.sqlite import SQLiteGuard as SQLiteGuard
