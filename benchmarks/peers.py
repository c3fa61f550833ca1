"""The peers: each seals the same information and checks it when it opens.

A token carries the state, exp, iat, the audience, the principal and the request's digest. The two
bindings are at hand, ready for the peer's encoding; statebox itself has its principals to hash.
What a peer does not check by itself is checked by the lines below, so that all do the same work.
"""

from __future__ import annotations

import hmac
import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any, Final, cast

import jwt
import pyseto
from cryptography.fernet import Fernet
from itsdangerous import URLSafeTimedSerializer
from joserfc import jwe, jws
from joserfc import jwt as jose
from joserfc.jwk import OctKey
from mcp.server.request_state import AESGCMRequestStateCodec

from benchmarks.cases import AUDIENCE, PRINCIPALS, TTL, Pair, in_turns
from statebox.state import State

_SECRET: Final = bytes(range(32))
_PRINCIPALS: Final = tuple(
    urlsafe_b64encode(principal.encode()[:16]).decode() for principal in PRINCIPALS
)
_DIGEST: Final = urlsafe_b64encode(bytes(range(16, 32))).decode()

Claims = dict[str, Any]
Peer = tuple[Callable[[Claims], str | bytes], Callable[[Any], Claims]]


class BindingError(Exception):
    """A peer's token is not for this audience, time, principal or request."""


def peers_of(state: State) -> dict[str, Pair]:
    """Give every peer's calls for one state, by name; JSON-like states only."""
    return {name: peer_of(make, state) for name, make in PEERS.items()}


def peer_of(make: Callable[[], Peer], state: State) -> Pair:
    """Give the calls of one peer."""
    seal, read = make()

    def seal_state(principal: str) -> str | bytes:
        now = int(time.time())
        claims: Claims = {
            "s": state,
            "exp": now + TTL,
            "iat": now,
            "aud": AUDIENCE,
            "p": principal,
            "r": _DIGEST,
        }
        return seal(claims)

    def open_token(principal: str, token: str | bytes) -> object:
        claims = read(token)
        if not (
            hmac.compare_digest(claims["p"], principal)
            and hmac.compare_digest(claims["r"], _DIGEST)
        ):
            raise BindingError
        return claims["s"]

    return in_turns(_PRINCIPALS, seal_state, open_token)


def _require_claims(claims: Claims) -> Claims:
    """Check what a peer leaves to its caller: the audience and both times."""
    now = time.time()
    if claims["aud"] != AUDIENCE or not now < claims["exp"] or not claims["iat"] <= now + 60:
        raise BindingError
    return claims


def _dumps(claims: object) -> bytes:
    return json.dumps(claims, separators=(",", ":")).encode()


def pyjwt_hs256() -> Peer:
    def seal(claims: Claims) -> str:
        return jwt.encode(claims, _SECRET, "HS256")

    def read(token: str) -> Claims:
        return jwt.decode(token, _SECRET, ["HS256"], audience=AUDIENCE)

    return seal, read


def joserfc_hs256() -> Peer:
    key = OctKey.import_key(_SECRET)
    registry = jws.JWSRegistry(algorithms=["HS256"])
    rules = jose.JWTClaimsRegistry(aud={"essential": True, "value": AUDIENCE})

    def seal(claims: Claims) -> str:
        return jose.encode({"alg": "HS256"}, claims, key, registry=registry)

    def read(token: str) -> Claims:
        claims = jose.decode(token, key, registry=registry).claims
        rules.validate(claims)
        return claims

    return seal, read


def joserfc_dir() -> Peer:
    key = OctKey.import_key(_SECRET)
    registry = jwe.JWERegistry(algorithms=["dir", "A256GCM"])
    rules = jose.JWTClaimsRegistry(aud={"essential": True, "value": AUDIENCE})

    def seal(claims: Claims) -> str:
        return jose.encode({"alg": "dir", "enc": "A256GCM"}, claims, key, registry=registry)

    def read(token: str) -> Claims:
        claims = jose.decode(token, key, registry=registry).claims
        rules.validate(claims)
        return claims

    return seal, read


def itsdangerous_timed() -> Peer:
    serializer = URLSafeTimedSerializer(_SECRET)

    def seal(claims: Claims) -> str | bytes:
        return serializer.dumps(claims)

    def read(token: str) -> Claims:
        return _require_claims(serializer.loads(token, max_age=TTL))

    return seal, read


def fernet() -> Peer:
    box = Fernet(urlsafe_b64encode(_SECRET))

    def seal(claims: Claims) -> bytes:
        return box.encrypt(_dumps(claims))

    def read(token: bytes) -> Claims:
        return _require_claims(json.loads(box.decrypt(token, ttl=TTL)))

    return seal, read


def pyseto_v4_local() -> Peer:
    key = pyseto.Key.new(version=4, purpose="local", key=_SECRET)

    def seal(claims: Claims) -> bytes:
        return pyseto.encode(key, _dumps(claims))

    def read(token: bytes) -> Claims:
        payload = cast("bytes", pyseto.decode(key, token).payload)
        return _require_claims(json.loads(payload))

    return seal, read


def sdk_codec() -> Peer:
    codec = AESGCMRequestStateCodec([_SECRET])

    def seal(claims: Claims) -> str:
        return codec.seal(_dumps(claims))

    def read(token: str) -> Claims:
        return _require_claims(json.loads(codec.unseal(token)))

    return seal, read


PEERS: Final[dict[str, Callable[[], Peer]]] = {
    "Fernet": fernet,
    "joserfc JWE dir": joserfc_dir,
    "pyseto v4.local": pyseto_v4_local,
    "PyJWT HS256": pyjwt_hs256,
    "joserfc HS256": joserfc_hs256,
    "itsdangerous timed": itsdangerous_timed,
}
SIGNED: Final = frozenset({"PyJWT HS256", "joserfc HS256", "itsdangerous timed"})
