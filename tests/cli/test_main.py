"""The command itself: loaded bit by bit, one way to print, one way to end."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from statebox import StateboxError, __version__
from statebox_cli import output
from statebox_cli.group import CommandGroup
from statebox_cli.main import COMMANDS
from tests.cli.terminal import ROOT, run, spawn
from tests.cli.test_failures import codec_token
from tests.cli.tokens import CALL, SECOND, bound_token, message, ring_file
from tests.samples import maker

OURS = ("inspect", "scan", "open", "seal")  # tests/cli/test_keys_json.py has those of `keys`


def tree(error: type[StateboxError]) -> list[type[StateboxError]]:
    return [error, *(leaf for sub in error.__subclasses__() for leaf in tree(sub))]


def test_the_version_is_the_library_s() -> None:
    assert run("--version") == (0, f"statebox {__version__}\n", "")


def test_python_m_statebox_is_the_same_command() -> None:
    assert spawn("--version") == (0, f"statebox {__version__}\n", "")


def test_a_command_is_loaded_only_when_it_is_asked_for() -> None:
    loaded = "import sys; from statebox_cli.main import main\ntry: main()\nfinally: print(*sys.modules, sep='\\n')"
    token = bound_token()
    modules = set(spawn("inspect", token, command=loaded).out.splitlines())
    assert "statebox_cli.inspect" in modules
    absent = ("statebox_cli.scan", "statebox_cli.demo", "rich", "mcp", "pydantic", "asyncio")
    assert modules.isdisjoint(absent)


@pytest.mark.parametrize("module", ["click", "rich"])
def test_without_the_extra_one_line_says_what_to_install(module: str) -> None:
    program = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "sys.modules['click'] = None\n"
        "from statebox_cli.main import main; main()"
    )
    ran = spawn("inspect", "x", command=program)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines() == [
        "statebox: the command line needs click, which is not installed",
        "hint: pip install 'statebox[cli]'",
    ]


def test_without_the_sdk_the_demo_names_the_extras_that_it_needs() -> None:
    program = "import sys; sys.modules['mcp'] = None\nfrom statebox_cli.main import main; main()"
    ran = spawn("demo", command=program)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines() == [
        "statebox: mcp is not installed, and this command needs it",
        "hint: pip install 'statebox[mcp,cli]'",
    ]


def test_without_fastmcp_its_middleware_says_what_to_install() -> None:
    program = "import sys; sys.modules[{!r}] = None; import statebox.mcp.fastmcp"
    for missing in ("fastmcp", "fastmcp.server.middleware"):
        assert spawn(command=program.format(missing)).err.splitlines()[-1] == (
            'ImportError: statebox.mcp.fastmcp needs FastMCP 4: pip install "fastmcp>=4"'
        )
    # What FastMCP itself does not find is another failure, and no reason to install FastMCP.
    last = spawn(command=program.format("pydantic_settings")).err.splitlines()[-1]
    assert last.startswith("ModuleNotFoundError: import of pydantic_settings")


def test_a_part_of_the_command_itself_that_is_missing_is_not_blamed_on_an_extra() -> None:
    program = (
        "import sys; sys.modules['statebox_cli.group'] = None\n"
        "from statebox_cli.main import main; main()"
    )
    ran = spawn("--version", command=program)
    assert (ran.code, ran.out) == (1, "")
    assert "pip install" not in ran.err


@pytest.mark.parametrize("name", OURS)
def test_nobody_waits_for_a_terminal_that_was_not_asked_for(name: str, tmp_path: Path) -> None:
    master, slave = pty.openpty()
    paths = os.pathsep.join([str(ROOT), str(ROOT / "cli")])
    ran = subprocess.run(
        [sys.executable, "-m", "statebox", name],
        stdin=slave,
        capture_output=True,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": paths,
            "STATEBOX_KEYRING": ring_file(tmp_path),
            "STATEBOX_AUDIENCE": "billing",
        },
    )
    os.close(slave)
    os.close(master)
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert b"- for stdin" in ran.stderr


def test_the_help_of_all_commands_names_every_one_and_the_exit_codes() -> None:
    ran = run("--help")
    assert ran.code == 0
    for name in COMMANDS:
        assert re.search(rf"^  {name} +\S", ran.out, re.MULTILINE), name
    for code in {0, 1, *output.EXIT_CODES.values()}:
        assert re.search(rf"\b{code} [a-z]", ran.out), code
    assert "_STATEBOX_COMPLETE=bash_source" in ran.out


@pytest.mark.parametrize("name", OURS)
def test_the_help_of_a_command_has_examples_and_fits(name: str) -> None:
    ran = run(name, "-h")
    assert (ran.code, ran.err) == (0, "")
    assert "Examples:\n    " in ran.out
    assert ran.out.count(f"statebox {name}") >= 3
    assert max(map(len, ran.out.splitlines())) <= 80


def test_no_command_at_all_shows_the_help() -> None:
    ran = run()
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("Usage: statebox")
    assert run("--json").json["error"]["code"] == "usage"


def test_the_shell_completes_commands_and_options() -> None:
    environment = {
        "_STATEBOX_COMPLETE": "bash_complete",
        "COMP_WORDS": "statebox ins",
        "COMP_CWORD": "1",
    }
    assert spawn(env=environment).out == "plain,inspect\n"
    environment |= {"COMP_WORDS": "statebox inspect --show", "COMP_CWORD": "2"}
    assert spawn(env=environment).out == "plain,--show-state\n"
    assert "complete -o nosort -F" in spawn(env={"_STATEBOX_COMPLETE": "bash_source"}).out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", "--bogus"], "no such option"),  # the rest is said otherwise by click 8.2
        (["bogus"], "no such command 'bogus'"),
        (["--json=", "keys"], "--json comes after the name of a command"),
        (["inspect", ""], "the token is empty"),
        (["scan", ""], "the name of a file is empty"),
        (["keys", "import", "", "--keyring", "none"], "the name of a file is empty"),
        (
            ["seal", "--ttl", "soon"],
            "invalid value for '--ttl' (env var: 'STATEBOX_TTL'): that is not",
        ),
        (["inspect", "x", "--at", "noon"], "invalid value for '--at': that is not a time"),
        (["scan", "missing.log"], "missing.log cannot be read: No such file or directory"),
        (["inspect", "missing.json"], "there is no file missing.json"),
        (["inspect", "x", "--pick", "2"], "of 1 requestState there is no number 2"),
        (["inspect", "x", "--principal", "a", "--no-principal"], "an option and its opposite"),
    ],
)
def test_a_mistake_is_one_line_and_a_hint_on_stderr(arguments: list[str], message: str) -> None:
    ran = run(*arguments)
    assert (ran.code, ran.out) == (2, "")
    said, hint = ran.err.splitlines()
    assert said.startswith(f"statebox: {message}")
    assert hint.startswith("hint: ")
    assert not said.endswith(".")


def test_a_command_that_is_spelt_almost_right_is_named() -> None:
    for wrong, right in (("inspct", "inspect"), ("key", "keys"), ("sel", "seal")):
        assert run(wrong).err.splitlines()[1] == f"hint: did you mean '{right}'?"
    assert run("bogus").err.splitlines()[1] == "hint: run `statebox --help`"


def test_a_word_that_names_no_file_is_not_taken_for_a_token_in_silence() -> None:
    ran = run("inspect", "tokens")
    assert (ran.code, ran.err) == (
        3,
        "statebox: there is no file of this name, so it was taken for the token itself\n",
    )
    assert run("inspect", "-", stdin="tokens").err == ""
    assert run("inspect", bound_token()).err == ""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_one_line_break_at_the_end_of_a_file_is_no_news(end: str, tmp_path: Path) -> None:
    given = ("--keyring", ring_file(tmp_path), "--at", SECOND)
    wide = ("--audience", "billing", "--principal", "alice", "--request", str(tmp_path / "call"))
    (tmp_path / "call").write_text(json.dumps(CALL))
    (tmp_path / "token").write_bytes(f"{bound_token()}{end}".encode())
    for name, options in (("inspect", ()), ("open", wide)):
        ran = run(name, str(tmp_path / "token"), *given, *options)
        assert (ran.code, ran.err, "mended" in ran.out) == (0, "", False)
        for blanks in (f" {end}", f"{end}{end}", " ", "\r"):
            ran = run(name, "-", *given, *options, stdin=f"{bound_token()}{blanks}")
            said = "statebox: the token had blanks around it, which were trimmed\n"
            assert (ran.code, ran.err) == (0, said)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(
    "mistake", ["option", "keyring", "loose keyring", "not a keyring", "value"]
)
def test_with_json_every_mistake_is_one_object_with_the_members_of_the_command(
    name: str, mistake: str, tmp_path: Path
) -> None:
    ring = Path(ring_file(tmp_path))
    if mistake == "keyring":
        ring.unlink()
    if mistake == "loose keyring":
        ring.chmod(0o644)
    if mistake == "not a keyring":
        ring.write_text("{")
    wrong = {"option": ["--bogus"], "value": ["--at", "noon"]}.get(mistake, [])
    arguments = [name] if name == "seal" else [name, "-"]
    given = ("--keyring", str(ring), "--audience", "a", "--json", *wrong)
    ran = run(*arguments, *given, stdin="1")
    told = ran.json
    command = CommandGroup(COMMANDS).get_command(click.Context(click.Command("x")), name)
    assert isinstance(command, output.Command)
    assert told.keys() == {*command.blank, "error"}
    assert told["error"].keys() == {"code", "message", "hint"}
    assert ran.code == (2 if wrong else 8)
    assert told["error"]["code"] == ("usage" if wrong else "keyring")
    assert ran.err == ""


def test_every_error_of_the_library_has_an_exit_code_of_its_kind() -> None:
    library = (error for error in tree(StateboxError) if error.__module__.startswith("statebox."))
    codes = {error.code for error in library}
    abstract = {"statebox", "open", "claim"}
    unexpected = {"guard_unavailable", "key_exhausted"}
    assert codes - abstract - unexpected - output.EXIT_CODES.keys() == set()


SENTINEL = "s3nt1nel-value"


class Broken(CommandGroup):
    """A group with one command that fails in a given way."""

    def __init__(self, error: BaseException) -> None:
        super().__init__({"fail": "-"})
        self._error = error

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        def fail() -> None:
            raise self._error

        return click.Command(cmd_name, callback=fail)


def ending(
    error: BaseException, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[Any, ...]:
    with pytest.raises(SystemExit) as ended:
        Broken(error).main(["fail", *arguments])
    return ended.value.code, *capsys.readouterr()


def test_an_unexpected_error_is_one_line_without_its_message(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = ending(KeyError(SENTINEL), capsys)
    assert (code, out) == (1, "")
    assert re.fullmatch(
        r"statebox: unexpected KeyError in test_main.py:\d+\nhint: set STATEBOX_DEBUG=1 .*\n", err
    )
    monkeypatch.setenv("STATEBOX_DEBUG", "1")
    code, out, err = ending(KeyError(SENTINEL), capsys)
    assert "raise self._error" in err
    assert SENTINEL not in err


def test_what_the_system_refused_is_said_in_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = ending(OSError(28, "No space left on device", SENTINEL), capsys)
    assert (code, err.splitlines()[0]) == (1, "statebox: no space left on device")
    assert SENTINEL not in err


def test_a_part_that_is_not_installed_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = ending(ModuleNotFoundError(SENTINEL, name="redis"), capsys)
    assert code == 1
    assert err.splitlines() == [
        "statebox: redis is not installed, and this command needs it",
        "hint: pip install 'statebox[all]'",
    ]


def test_a_refusal_and_an_interruption_have_their_codes(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = ending(output.RefusedError("it would reject live tokens"), capsys)
    assert (code, err) == (
        9,
        "statebox: it would reject live tokens\nhint: nothing was changed\n",
    )
    assert ending(KeyboardInterrupt(), capsys)[0] == 130
    assert ending(click.Abort(), capsys)[0] == 1


def test_a_closed_pipe_ends_quietly() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    paths = os.pathsep.join([str(ROOT), str(ROOT / "cli")])
    for arguments in (
        ["inspect", bound_token()],
        ["inspect", "sb1.x", "--json"],
        ["inspect", "-h"],
    ):
        ran = subprocess.run(
            [sys.executable, "-m", "statebox", *arguments],
            stdout=writer,
            stderr=subprocess.PIPE,
            check=False,
            env={**os.environ, "PYTHONPATH": paths},
        )
        assert (ran.returncode, ran.stderr) == (141, b"")
    os.close(writer)


def on_a_terminal(environment: dict[str, str]) -> bytes:
    master, slave = pty.openpty()
    paths = os.pathsep.join([str(ROOT), str(ROOT / "cli")])
    with subprocess.Popen(
        [sys.executable, "-m", "statebox", "inspect", bound_token()],
        stdout=slave,
        env={**os.environ, "PYTHONPATH": paths, "TERM": "xterm", **environment},
    ) as process:
        os.close(slave)
        data = b""
        while True:
            try:
                data += os.read(master, 4096)
            except OSError:  # Linux ends a terminal with an error
                break
        assert process.wait() == 0
    os.close(master)
    return data


def test_colour_is_for_terminals_that_want_it() -> None:
    assert b"\x1b[32m" in on_a_terminal({})
    assert b"\x1b" not in on_a_terminal({"NO_COLOR": "1"})
    assert b"\x1b" not in on_a_terminal({"TERM": "dumb"})
    assert "\x1b" not in spawn("inspect", bound_token()).out


def test_a_terminal_that_lacks_a_character_gets_an_escape(tmp_path: Path) -> None:
    arguments = ("--keyring", ring_file(tmp_path), "--at", SECOND)
    western = {"PYTHONIOENCODING": "latin-1"}
    ran = spawn("inspect", bound_token(aud="東京"), *arguments, env=western)
    assert ran.code == 0
    assert r"\u6771\u4eac" in ran.out


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text", "plain text"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("Zürich 東京", "Zürich 東京"),
        ("\ud800", r"\ud800"),
    ],
)
def test_foreign_text_cannot_steer_a_terminal(text: str, shown: str) -> None:
    assert output.printable(text) == shown


def test_a_request_that_no_token_is_bound_to_is_not_compared(tmp_path: Path) -> None:
    deep: object = 1
    for _ in range(70):
        deep = [deep]
    text = message(bound_token(), {**CALL, "params": {**CALL["params"], "arguments": {"a": deep}}})
    ran = run("inspect", "-", "--keyring", ring_file(tmp_path), "--at", SECOND, stdin=text)
    assert ran.code == 0
    assert ran.err.startswith("statebox: the request it stands in has arguments that no token")
    assert "--request." in ran.out


def test_a_state_is_shown_as_far_as_a_screen_goes(tmp_path: Path) -> None:
    given = ("--show-state", "--at", SECOND)
    ran = run("inspect", bound_token(), *given)
    assert "State: not readable without its key" in ran.out
    long = bound_token(state="x" * 3000)
    ran = run("inspect", long, *given, "--keyring", ring_file(tmp_path))
    assert "2002 more, see --json" in " ".join(ran.out.split())
    assert max(map(len, ran.out.splitlines())) <= 80


def test_a_signed_token_of_no_known_shape_tells_no_claims() -> None:
    ran = run("inspect", maker("2026-sign", "HS256").token(b"\xa0"), "--json", "--show-state")
    assert (ran.code, ran.json["verified"], ran.json["claims"]) == (0, None, None)


def test_a_signed_token_of_the_codec_tells_its_claims_unverified() -> None:
    ran = run("inspect", codec_token("2026-sign"), "--json", "--show-state")
    assert (ran.json["verified"], ran.json["claims"]["state"]) == (None, "step 2")


def test_a_token_that_claims_escape_codes_shows_them_as_text(tmp_path: Path) -> None:
    token = bound_token("2026-sign", aud="\x1b[2Jbilling\u202e")
    for ran in (
        run("inspect", token),
        run("inspect", token, "--keyring", ring_file(tmp_path), "--at", SECOND),
    ):
        assert ran.code == 0
        assert "\x1b" not in ran.out
        assert r"\x1b[2Jbilling\u202e" in ran.out


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_stream_that_the_caller_has_closed_ends_in_no_traceback(closed: str) -> None:
    command = f"{sys.executable} -m statebox inspect - {closed}"
    told = subprocess.run(
        ["sh", "-c", command], input="", capture_output=True, text=True, check=False
    )
    assert told.returncode in (2, 3)
    assert "Traceback" not in told.stdout + told.stderr
