"""statebox seals a server's half-finished work into a token that the client carries.

    >>> from statebox import Keyring, Request, Statebox
    >>> box = Statebox(Keyring.generate(), audience="billing", ttl=600)
    >>> call = Request("tools/call", "refund", {"order": "ORD-7001"})
    >>> token = box.seal({"step": "confirm"}, principal="alice", request=call)
    >>> turn = box.open(token, principal="alice", request=call)
    >>> turn.state, turn.round
    ({'step': 'confirm'}, 1)

**What a token is.** One COSE message (RFC 9052) in text, `sb1.` and base64url: encrypted under
AES-256-GCM, or signed with HMAC-SHA256 and then readable by the client. Inside lie CWT claims
(RFC 8392) and the state.

**What opening proves.** That a replica with the same keyring sealed it; for this `audience`; not
longer ago than its ttl; for this `principal` and this `request`. The first thing that does not
hold is raised, as an `OpenError` with a stable `code`. Nothing of such a token is returned.

**What it does not prove.** That the token is presented for the first time: see
`statebox.replay`. That the client did not read it, if the key's algorithm is HS256.

**Keys.** A `Keyring` holds secrets by kid, each for one algorithm, with dates. Which one seals
follows from the dates and the clock, so a rotation is one change of one file. Give
`Statebox.from_source("file:keyring.json", ...)` a file and it is watched.

Public besides this table: `statebox.mcp`, `statebox.replay`, `statebox.events`, `statebox.otel`
and `statebox.testing`. Everything else is private.
"""

from statebox.bindings import Request as Request
from statebox.box import Statebox as Statebox
from statebox.continuation import Continuation as Continuation
from statebox.errors import AudienceError as AudienceError
from statebox.errors import AuthenticationError as AuthenticationError
from statebox.errors import ClaimError as ClaimError
from statebox.errors import ExpiredFlowError as ExpiredFlowError
from statebox.errors import ExpiredKeyError as ExpiredKeyError
from statebox.errors import ExpiredTokenError as ExpiredTokenError
from statebox.errors import FutureTokenError as FutureTokenError
from statebox.errors import GuardUnavailableError as GuardUnavailableError
from statebox.errors import KeyringError as KeyringError
from statebox.errors import MalformedTokenError as MalformedTokenError
from statebox.errors import OpenError as OpenError
from statebox.errors import PrincipalError as PrincipalError
from statebox.errors import ReplayedTokenError as ReplayedTokenError
from statebox.errors import RequestError as RequestError
from statebox.errors import RevokedKeyError as RevokedKeyError
from statebox.errors import SealError as SealError
from statebox.errors import StateboxError as StateboxError
from statebox.errors import TokenTooLargeError as TokenTooLargeError
from statebox.errors import TooManyRoundsError as TooManyRoundsError
from statebox.errors import UnknownKeyError as UnknownKeyError
from statebox.keyring import Keyring as Keyring
from statebox.keys import Key as Key

__version__ = "0.1.0"
