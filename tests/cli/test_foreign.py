"""Tokens of other programs are recognised, and those of the SDKs judged under their keys."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from statebox_cli.foreign import recognise
from tests.cli.terminal import Ran, run, secret_file
from tests.cli.tokens import CALL, SECOND, message, ring_file
from tests.samples import NOW

KEY = "0123456789abcdef0123456789abcdef-ts"
STATE = {"step": "confirm", "n": [1, 2]}

# Made by @modelcontextprotocol/server 2.4.0 under KEY: the first without, the second with `bind`.
TYPESCRIPT = (
    "v1.eyJwIjp7InN0ZXAiOiJjb25maXJtIiwibiI6WzEsMl19LCJleHAiOjE3OTYxMDEwMzd9"
    ".rMwcjyqfhzIs25Bx4pU-EpCZG5J011sS3O99iV8GrtE"
)
TYPESCRIPT_BOUND = (
    "v1.eyJwIjp7InN0ZXAiOiJ4In0sImV4cCI6MTc5NjEwMTAzNywiYiI6Im52elM2SjVkM0RHZFZ2aVBfTHRoUmcifQ"
    ".zaetlAoTEyUtC3JCPHwEFrSbY6zGxAGk4QuNmZnGhes"
)
TYPESCRIPT_END = 1_796_101_037


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def python_token(key: str = KEY, **claims: Any) -> str:
    """Let the SDK's own codec seal the SDK's own claims."""
    from mcp.server.request_state import AESGCMRequestStateCodec, compact_json

    digest = hashlib.sha256(
        compact_json(CALL["params"]["arguments"], sort_keys=True).encode()
    ).digest()
    given = {
        "v": 1,
        "iat": NOW - 60.5,
        "exp": NOW + 539.5,
        "m": "tools/call",
        "t": "refund",
        "a": b64(digest[:16]),
        "s": json.dumps(STATE),
        "aud": "billing",
    } | claims
    return AESGCMRequestStateCodec([key]).seal(compact_json(given).encode())


def principal_claim(name: str) -> str:
    salt = b"saltsalt"
    label = b"mcp/request-state/principal:"
    return b64(salt + hashlib.sha256(label + salt + name.encode()).digest()[:16])


def ruby_token(key: bytes, **claims: Any) -> str:
    """Seal as ruby-sdk's RequestStateSecurity does."""
    given = {"v": 1, "exp": NOW + 300, "m": "tools/call", "t": "refund", "a": "x", "s": "two"}
    payload = json.dumps(given | claims).encode()
    return "v1." + b64(bytes(12) + AESGCM(key).encrypt(bytes(12), payload, b"v1."))


def rmcp_token(
    payload: bytes, *, kid: bytes | None = None, expires_ms: int = 0, context: bytes = b""
) -> str:
    """Seal as rust-sdk's RequestStateCodec does."""
    body = expires_ms.to_bytes(8, "big") + payload
    named = b"" if kid is None else len(kid).to_bytes(8, "big") + kid
    version = b"1" if kid is None else b"2"
    bound = len(context).to_bytes(8, "big") + context
    tag = hmac.digest(
        KEY.encode(), b"rmcp/mrtr/request-state/v" + version + named + bound + body, "sha256"
    )
    words = [f"rs{version.decode()}", *([] if kid is None else [b64(kid)]), b64(body), b64(tag)]
    return ".".join(words)


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    return str(secret_file(tmp_path, "sdk.key", f"{KEY}\n"))


def inspect(text: str, *options: str, at: object = SECOND) -> Ran:
    return run("inspect", "-", "--json", "--at", str(at), *options, stdin=text)


def statuses(ran: Ran) -> dict[str, str]:
    return {check["name"]: check["status"] for check in ran.json["checks"]}


@pytest.mark.parametrize(
    ("text", "form", "alg"),
    [
        (python_token(), "python-sdk-v1", "A256GCM"),
        (TYPESCRIPT, "typescript-sdk-v1", "HS256"),
        (rmcp_token(b"{}"), "rmcp-rs1", "HS256"),
        (rmcp_token(b"{}", kid=b"2026"), "rmcp-rs2", "HS256"),
    ],
    ids=["python", "typescript", "rmcp 1", "rmcp 2"],
)
def test_the_sdks_tokens_are_recognised_and_stay_unverified_without_a_key(
    text: str, form: str, alg: str, tmp_path: Path
) -> None:
    ran = inspect(text)
    told = ran.json
    assert (ran.code, told["verified"], told["error"]) == (0, None, None)
    assert (told["token"]["format"], told["token"]["alg"]) == (form, alg)
    assert told["token"]["chars"] == len(text)
    assert (
        "UNVERIFIED: nothing here is authenticated; give --sdk-key-file" in run("inspect", text).out
    )
    # To a server of statebox it is malformed, and the reason is told.
    ran = inspect(text, "--keyring", ring_file(tmp_path))
    assert (ran.code, ran.json["error"]["code"], ran.json["verified"]) == (3, "malformed", False)
    assert "A replica runs without statebox" in ran.json["error"]["hint"]


@pytest.mark.parametrize(
    ("text", "form", "words"),
    [
        (b64(b'{"step": 1}'), "base64-json", "base64 of JSON: not protected"),
        (base64.b64encode(b'[{"a": "??>>"}]').decode(), "base64-json", "base64 of JSON"),
        (message('{"step": 1}'), "json", "plain JSON: not protected"),
        ("eyJhbGciOiJub25lIn0.e30.c2lnbmF0dXJlLTE2", "jwt", "looks like a JWT"),
        ("eyJhbGciOiJkaXIifQ..aXY.dGV4dA.dGFn", "jwt", "an encrypted JWT"),
        ("gAAAAA" + "B" * 94, "fernet", "looks like a Fernet token"),
        ("v4.local." + "A" * 80, "paseto", "looks like a PASETO"),
        ("v2.public." + "A" * 80 + ".Zm9v", "paseto", "looks like a PASETO"),
    ],
    ids=["url", "standard", "plain", "jwt", "jwe", "fernet", "local", "public"],
)
def test_other_formats_are_called_what_they_look_like(text: str, form: str, words: str) -> None:
    ran = inspect(text)
    assert (ran.code, ran.json["token"]["format"]) == (3, form)
    assert words in ran.json["error"]["message"]


def test_the_python_sdk_s_token_is_judged_as_the_sdk_does(key_file: str) -> None:
    given = ("--sdk-key-file", key_file, "--audience", "billing", "--no-principal")
    ran = inspect(message(python_token()), *given)
    assert (ran.code, ran.json["error"], ran.json["verified"]) == (0, None, True)
    assert statuses(ran)["request"] == "pass"
    assert ran.json["claims"]["request"] == {"method": "tools/call", "target": "refund"}
    shown = inspect(message(python_token()), *given, "--show-state").json
    assert json.loads(shown["claims"]["state"]) == STATE


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        ({"iat": NOW + 61}, "issued_in_future"),
        ({"exp": NOW}, "expired"),
        ({"m": "prompts/get"}, "request"),
        ({"t": "wire"}, "request"),
        ({"a": "AAAAAAAAAAAAAAAAAAAAAA"}, "request"),
        ({"aud": "refunds"}, "audience"),
        ({"p": principal_claim("bob")}, "principal"),
        ({"v": 2}, "malformed"),
        ({"exp": float("nan")}, "malformed"),
        ({"s": 1}, "malformed"),
        ({"a": 1}, "malformed"),
        # Of several, the one that the SDK meets first.
        ({"aud": "refunds", "t": "wire", "exp": 5}, "expired"),
        ({"aud": "refunds", "t": "wire"}, "request"),
    ],
)
def test_what_the_python_sdk_refuses_is_refused(
    claims: dict[str, Any], code: str, key_file: str
) -> None:
    given = ("--sdk-key-file", key_file, "--audience", "billing", "--no-principal")
    ran = inspect(message(python_token(**claims)), *given)
    assert ran.json["error"]["code"] == code


@pytest.mark.parametrize(
    ("bound_to", "parts"),
    [
        ("alice", ("alice",)),
        ('["alice"]', ("alice",)),
        ('["https://iss","alice","app"]', ("https://iss", "alice", "app")),
        ('["app","https://iss","alice"]', ("https://iss", "alice", "app")),
        ('["app",null,"alice"]', ("", "alice", "app")),
    ],
    ids=["a callable's", "the codec's", "the codec's three", "the SDK's three", "without issuer"],
)
def test_a_principal_is_found_however_the_server_wrote_it(
    bound_to: str, parts: tuple[str, ...], key_file: str
) -> None:
    words = [word for part in parts for word in ("--principal", part)]
    text = python_token(p=principal_claim(bound_to))
    assert statuses(inspect(text, "--sdk-key-file", key_file, *words))["principal"] == "pass"
    other = inspect(text, "--sdk-key-file", key_file, "--principal", "mallory")
    assert (other.code, other.json["error"]["code"]) == (7, "principal")


@pytest.mark.parametrize(
    "encode",
    [bytes.decode, bytes.hex, b64],
    ids=["text", "hex", "base64"],
)
def test_a_key_is_read_as_text_as_hex_and_as_base64(
    encode: Callable[[bytes], str], tmp_path: Path
) -> None:
    path = str(secret_file(tmp_path, "k", encode(KEY.encode())))
    assert inspect(python_token(), "--sdk-key-file", path).code == 0
    assert inspect(TYPESCRIPT, "--sdk-key-file", path, at=TYPESCRIPT_END).code == 0


def test_a_key_may_be_any_text(tmp_path: Path) -> None:
    key = "a phrase, with blanks! and more than 32 bytes"
    path = str(secret_file(tmp_path, "k", key))
    assert inspect(python_token(key), "--sdk-key-file", path).code == 0


def test_another_key_of_the_python_sdk_is_unknown_and_a_changed_token_is_not_authentic(
    key_file: str, tmp_path: Path
) -> None:
    text = python_token()
    other = str(secret_file(tmp_path, "other", "f" * 40))
    ran = inspect(text, "--sdk-key-file", other)
    assert (ran.code, ran.json["error"]["code"]) == (5, "unknown_key")
    assert ran.json["token"]["kid"] in ran.json["error"]["message"]
    assert inspect(text, "--sdk-key-file", other, "--sdk-key-file", key_file).code == 0
    changed = text[:60] + ("A" if text[60] != "A" else "B") + text[61:]
    ran = inspect(changed, "--sdk-key-file", key_file)
    assert (ran.code, ran.json["error"]["code"]) == (4, "authentication")


def test_the_ruby_sdk_s_token_is_judged_under_its_key(tmp_path: Path) -> None:
    key = b"r" * 32
    given = (
        "--sdk-key-file",
        str(secret_file(tmp_path, "k", key.decode())),
        "--audience",
        "billing",
    )
    ran = inspect(ruby_token(key, aud="billing"), *given)
    assert (ran.code, ran.json["verified"], statuses(ran)["audience"]) == (0, True, "pass")
    assert inspect(ruby_token(key, aud="x"), *given).json["error"]["code"] == "audience"
    assert inspect(ruby_token(key, aud="billing", exp=NOW), *given).code == 0
    assert inspect(ruby_token(key, exp=NOW - 1), *given).json["error"]["code"] == "expired"
    assert inspect(ruby_token(key, exp="soon"), *given).json["error"]["code"] == "malformed"
    assert inspect(ruby_token(key, exp=float("inf")), *given).json["error"]["code"] == "malformed"


@pytest.mark.parametrize(
    ("at", "code"), [(TYPESCRIPT_END, 0), (TYPESCRIPT_END + 0.9, 0), (TYPESCRIPT_END + 1, 6)]
)
def test_the_typescript_sdk_s_token_is_judged_under_its_key(
    at: float, code: int, key_file: str
) -> None:
    ran = inspect(TYPESCRIPT, "--sdk-key-file", key_file, "--show-state", at=at)
    assert ran.code == code
    assert ran.json["claims"]["state"] == STATE
    assert inspect(TYPESCRIPT_BOUND, "--sdk-key-file", key_file, at=at).code == code


def test_a_changed_token_of_the_typescript_sdk_is_not_authentic(key_file: str) -> None:
    other_body = "v1." + b64(b'{"p":1,"exp":9999999999}') + "." + TYPESCRIPT.rpartition(".")[2]
    for text in (TYPESCRIPT[:-2] + "AA", other_body):
        ran = inspect(text, "--sdk-key-file", key_file)
        assert (ran.code, ran.json["error"]["code"]) == (4, "authentication")


@pytest.mark.parametrize("kid", [None, b"2026-08", "schlüssel".encode()])
def test_rmcp_s_token_is_judged_under_its_key(kid: bytes | None, key_file: str) -> None:
    given = ("--sdk-key-file", key_file)
    assert inspect(rmcp_token(b"step=2", kid=kid), *given).code == 0
    end = NOW * 1000
    assert inspect(rmcp_token(b"{}", kid=kid, expires_ms=end), *given).code == 0
    ended = inspect(rmcp_token(b"{}", kid=kid, expires_ms=end - 1), *given)
    assert (ended.code, ended.json["error"]["code"]) == (6, "expired")
    bound = inspect(rmcp_token(b"{}", kid=kid, context=b"alice"), *given)
    assert (bound.code, bound.json["error"]["code"]) == (4, "authentication")
    assert "sealed with associated data" in bound.json["error"]["message"]


def test_nothing_of_a_foreign_state_is_shown_unless_it_is_asked_for(key_file: str) -> None:
    texts = [
        python_token(),
        TYPESCRIPT,
        rmcp_token(b'{"step": "confirm"}'),
        b64(b'{"step": "confirm"}'),
    ]
    for text in texts:
        for options in ([], ["--sdk-key-file", key_file]):
            plain = run("inspect", text, *options)
            assert "confirm" not in plain.out + plain.err
            assert "confirm" not in inspect(text, *options).out


@pytest.mark.parametrize(
    "text",
    [
        "v1.AAAA",
        "v1.AAAA.BBBB",
        "v1.eyJhIjoxfQ.BBBB",
        "rs1.AAAA.BBBB",
        f"rs2._w.{b64(bytes(9))}.AAAA",
        "rs1.!.!",
        "v1.!.!",
        "v1.!",
    ],
)
def test_what_only_begins_like_a_token_is_none(text: str) -> None:
    assert recognise(text) is None


def test_a_resource_is_compared_by_its_uri(key_file: str) -> None:
    from mcp.server.request_state import compact_json

    digest = b64(hashlib.sha256(compact_json({}).encode()).digest()[:16])
    text = python_token(m="resources/read", t="file:///a", a=digest)
    for uri, code in (("file:///a", 0), ("file:///b", 7)):
        call = {"method": "resources/read", "params": {"uri": uri, "requestState": text}}
        assert inspect(json.dumps(call), "--sdk-key-file", key_file).code == code


@given(st.text() | st.text('ev1rs2.AaBb0-_=/+{}[]":,', max_size=60))
def test_any_text_is_recognised_or_not(text: str) -> None:
    for prefix in ("", "v1.", "rs1.", "rs2."):
        known = recognise(prefix + text)
        assert known is None or known.name


@pytest.mark.parametrize("exp", ["1e400", "-1", "1e300", "NaN", "-Infinity", "9" * 400])
def test_a_time_beyond_all_clocks_is_shown_as_one(exp: str) -> None:
    body = b64(f'{{"p":1,"exp":{exp}}}'.encode())
    text = f"v1.{body}.{b64(bytes(32))}"
    assert run("inspect", text).code == 0
