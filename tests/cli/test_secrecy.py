"""No secret, state, principal or token in any output that did not ask for it.

Every command is run with sentinels in all of its inputs, so that it succeeds, fails and is misused,
in text and in JSON, with and without debugging; then all it wrote is searched.
"""

import base64
import json
import traceback
from pathlib import Path

import pytest

from statebox import Keyring
from statebox.errors import StateboxError
from tests.cli.terminal import Ran, run, secret_file, spawn
from tests.cli.tokens import CALL, RING, SECOND, bound_token, message, ring_file
from tests.samples import secret

STATE = "sentinel-state-8f2a"
PRINCIPAL = "sentinel-principal-77c1"
ARGUMENT = "sentinel-argument-0d3e"
SDK_KEY = "sentinel-sdk-key-4b9e-" + "k" * 32

MODES = {"encrypted": "2026-a", "signed": "2026-sign"}


def token_of(kid: str) -> str:
    return bound_token(kid, principal=PRINCIPAL, state={"note": STATE})


def told_secrets(ran: Ran, *texts: str) -> list[str]:
    """Name the sentinels in what a command wrote."""
    keys = [base64.urlsafe_b64encode(key_bytes(kid)).decode()[:20] for kid in MODES.values()]
    sought = [STATE, PRINCIPAL, ARGUMENT, SDK_KEY, *keys, *(text[10:60] for text in texts)]
    written = ran.out + ran.err
    return [word for word in sought if word and word in written]


def key_bytes(kid: str) -> bytes:
    return secret(f"{kid} {'HS256' if kid == '2026-sign' else 'A256GCM'}")


def inputs_of(token: str) -> dict[str, str]:
    """Write a token in ways that succeed and in ways that fail."""
    call = {**CALL, "params": {**CALL["params"], "arguments": {"x": ARGUMENT}}}
    changed = token[:100] + ("A" if token[100] != "A" else "B") + token[101:]
    return {
        "whole": message(token),
        "other request": message(token, call),
        "changed": changed,
        "cut": token[:120],
        "URL-encoded": message(token.replace(".", "%2E")),
        "log": f"INFO sealed {token}\nWARN got {changed}\n",
        "no prefix": token[4:],
        "broken JSON": message(token)[:-3],
        "unprotected": message(base64.b64encode(json.dumps({"note": STATE}).encode()).decode()),
        "plain state": json.dumps({"note": STATE, "requestState": {"note": STATE}}),
    }


@pytest.fixture
def ring(tmp_path: Path) -> str:
    return ring_file(tmp_path)


@pytest.mark.parametrize("kid", MODES.values(), ids=MODES.keys())
@pytest.mark.parametrize("name", inputs_of("x" * 200).keys())
def test_inspect_and_scan_tell_nothing_of_a_token_unless_asked(
    name: str, kid: str, ring: str, tmp_path: Path
) -> None:
    token = token_of(kid)
    text = inputs_of(token)[name]
    sdk_key = str(secret_file(tmp_path, "sdk.key", SDK_KEY))
    contexts: list[list[str]] = [
        [],
        ["--keyring", ring],
        ["--keyring", ring, "--audience", "billing", "--at", SECOND],
    ]
    who: list[list[str]] = [[], ["--principal", PRINCIPAL], ["--principal", f"x{PRINCIPAL}"]]
    commands = [
        *(["inspect", "-", *given, *by] for given in contexts for by in who),
        ["inspect", "-", "--sdk-key-file", sdk_key],
        *(["scan", "-", *given] for given in contexts),
    ]
    for command in commands:
        for form in ([], ["--json"]):
            ran = run(*command, *form, stdin=text, env={"STATEBOX_DEBUG": "1"})
            assert told_secrets(ran, token) == [], command
            assert ran.code != 1


@pytest.mark.parametrize("kid", MODES.values(), ids=MODES.keys())
def test_the_state_is_shown_to_who_asks_and_the_principal_to_nobody(kid: str, ring: str) -> None:
    given = ("inspect", token_of(kid), "--keyring", ring, "--principal", PRINCIPAL, "--at", SECOND)
    for form in ([], ["--json"]):
        ran = run(*given, "--show-state", *form)
        assert told_secrets(ran, token_of(kid)) == [STATE]


@pytest.mark.parametrize(
    "options",
    [
        ["--audience", "refunds"],
        ["--principal", f"x{PRINCIPAL}"],
        ["--at", "1"],
        ["--at", f"{PRINCIPAL}"],
        ["--request", "/nowhere"],
        ["--bogus", PRINCIPAL],
    ],
    ids=["audience", "principal", "time", "no time", "request", "usage"],
)
def test_open_and_seal_that_fail_tell_nothing(options: list[str], ring: str) -> None:
    token = token_of("2026-a")
    state = json.dumps({"note": STATE})
    given = ["--keyring", ring, "--audience", "billing"]
    for form in ([], ["--json"]):
        opened = run("open", *given, *options, *form, stdin=token, env={"STATEBOX_DEBUG": "1"})
        assert opened.code not in {0, 1}
        assert told_secrets(opened, token) == []
        sealed = run("seal", *given, *options, *form, stdin=state, env={"STATEBOX_DEBUG": "1"})
        assert STATE not in sealed.out + sealed.err


@pytest.mark.parametrize(
    "state", [f'{{"note": "{STATE}"', f'["{STATE}", NaN]', f'{{"{"k" * 70_000}": "{STATE}"}}']
)
def test_a_state_that_is_not_sealed_is_not_told(state: str, ring: str) -> None:
    for form in ([], ["--json"]):
        ran = run("seal", "--keyring", ring, "--audience", "a", "--at", SECOND, *form, stdin=state)
        assert ran.code in {2, 3}
        assert told_secrets(ran) == []


@pytest.mark.parametrize(
    "damage", ["cut", "loose", "no kid", "one secret twice", "no JSON Web Key"]
)
def test_a_keyring_that_is_refused_is_not_told(damage: str, ring: str) -> None:
    path = Path(ring)
    jwks = RING.to_jwks()
    if damage == "cut":
        path.write_text(path.read_text()[:-20])
    elif damage == "loose":
        path.chmod(0o666)
    elif damage == "no kid":
        del jwks["keys"][0]["kid"]
        path.write_text(json.dumps(jwks))
    elif damage == "one secret twice":
        jwks["keys"][1]["k"] = jwks["keys"][0]["k"]
        path.write_text(json.dumps(jwks))
    else:
        path.write_text(json.dumps({"keys": [key["k"] for key in jwks["keys"]]}))
    for name in ("inspect", "scan", "open", "seal"):
        rest = [] if name == "seal" else ["-"]
        for form in ([], ["--json"]):
            given = ("--keyring", ring, "--audience", "a", *form)
            ran = run(name, *rest, *given, stdin="1", env={"STATEBOX_DEBUG": "1"})
            assert ran.code == 8
            assert told_secrets(ran) == []


def test_a_command_that_breaks_tells_where_and_nothing_else(ring: str) -> None:
    program = (
        "import statebox_cli.inspect as command\n"
        f"def broken(*arguments): raise RuntimeError({STATE!r}, arguments)\n"
        "command.examine = broken\n"
        "from statebox_cli.main import main; main()"
    )
    token = token_of("2026-a")
    for debug in ("", "1"):
        ran = spawn(
            "inspect", token, "--keyring", ring, command=program, env={"STATEBOX_DEBUG": debug}
        )
        assert ran.code == 1
        assert "unexpected RuntimeError" in ran.err
        # Python shows the line of a program that was given with -c nowhere.
        assert told_secrets(ran, token) == []


def test_no_error_of_the_library_shows_its_ring(ring: str) -> None:
    keyring = Keyring.load(ring)
    with pytest.raises(StateboxError) as caught:
        keyring.active(1)
    shown = "".join(traceback.format_exception(caught.value)) + repr(keyring)
    assert told_secrets(Ran(0, shown, "")) == []
