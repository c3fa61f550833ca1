"""What happens to a token on its way is undone where it can be, and named."""

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statebox_cli.anatomy import is_cut_short, is_whole, take_apart
from statebox_cli.mend import mend
from tests.cli.tokens import bound_token

TOKEN = bound_token()
# One with both characters that base64 and base64url write differently.
DASHED = next(
    text for n in range(999) if "-" in (text := bound_token(round=1, state=n))[4:] and "_" in text
)


def wrapped(width: int, end: str) -> str:
    return end.join(TOKEN[at : at + width] for at in range(0, len(TOKEN), width))


DAMAGE = {
    "blanks around it": f"\n  {TOKEN}\t\r\n",
    "quotes around it": f'"{TOKEN}",',
    "smart quotes": f"“{TOKEN}”",
    "line wraps": wrapped(76, "\n"),
    "escapes of JSON or of a shell": TOKEN[:90] + "\\n" + TOKEN[90:],
    "URL-encoding": quote(TOKEN, safe="").replace(".", "%2E"),
    "blanks inside it": wrapped(60, " "),
    "invisible characters": TOKEN[:50] + "\u200b" + TOKEN[50:],
    "a prefix in capitals": TOKEN.replace("sb1.", "SB1."),
    "a missing prefix (sb1.)": TOKEN[4:],
}


@pytest.mark.parametrize(("name", "text"), DAMAGE.items(), ids=DAMAGE.keys())
def test_one_kind_of_damage_is_undone_and_named(name: str, text: str) -> None:
    assert not is_whole(text)
    assert mend(text) == (TOKEN, (name,))


@pytest.mark.parametrize("end", ["\r\n", "=\n", "\\\n", "\n> ", "\n  | ", " \n"])
def test_lines_are_joined_whatever_program_broke_them(end: str) -> None:
    assert mend(wrapped(64, end)) == (TOKEN, ("line wraps",))


@pytest.mark.parametrize(
    "run", ["\\", " ", "\t", "= ", "\\ ", "\\u00", "%", ">\n", "'", "\u200b"], ids=ascii
)
def test_a_long_run_of_anything_is_mended_to_its_end(run: str) -> None:
    # Where one step takes the square of the length, this takes hours.
    for end in ("b", "b\nc", "\nc"):
        assert mend("a" + run * (1_000_000 // len(run)) + end).text


@pytest.mark.parametrize("end", [" =\n", " \\\n", "\n\n\n", "= \r\n", "\n", " \r\n> "])
def test_lines_are_joined_with_blanks_on_either_side(end: str) -> None:
    assert mend(f"{TOKEN[:64]}{end}{TOKEN[64:]}").text == TOKEN


def test_a_run_of_backslashes_is_one_escape() -> None:
    assert mend(f"{TOKEN[:64]}\\\\\\n{TOKEN[64:]}\\n\\n").text == TOKEN


def test_a_text_far_longer_than_a_token_is_left_as_it_is() -> None:
    text = f'"{TOKEN}"' + " " * (1 << 20)
    assert mend(text) == (text, ())


def test_a_json_escape_is_undone() -> None:
    text = DASHED.replace("-", "\\u002d").replace(".", "\\u002E")
    assert mend(text) == (DASHED, ("escapes of JSON or of a shell",))


@pytest.mark.parametrize("prefix", ["", ".", "1.", "b1."])
def test_a_prefix_that_was_not_marked_is_put_back(prefix: str) -> None:
    assert mend(prefix + TOKEN[4:]).text == TOKEN


def test_standard_base64_becomes_base64url() -> None:
    text = "sb1." + DASHED[4:].replace("-", "+").replace("_", "/") + "=="
    assert mend(text) == (DASHED, ("standard base64 in the place of base64url",))


def test_smart_dashes_become_plain_ones() -> None:
    text = DASHED.replace("--", "\u2014").replace("-", "\u2013")
    assert mend(text).text == DASHED
    assert mend(text).damage == ("smart dashes",)


def test_two_kinds_of_damage_are_both_named() -> None:
    assert mend(f"“{wrapped(70, chr(10))}”\n").damage == (
        "blanks around it",
        "smart quotes",
        "line wraps",
    )


def test_what_is_whole_is_left_alone() -> None:
    assert mend(TOKEN) == (TOKEN, ())


@given(st.text())
def test_any_text_can_be_mended(text: str) -> None:
    mended = mend(text)
    assert (mended.text == text) or mended.damage


@pytest.mark.parametrize("text", [TOKEN, bound_token("2026-sign")], ids=["encrypted", "signed"])
def test_every_token_that_was_cut_is_called_cut_short(text: str) -> None:
    for end in range(4, len(text)):
        part = text[:end]
        anatomy = take_apart(part)
        problem = anatomy.text_problem or anatomy.frame_problem
        assert problem is not None
        assert "cut short" in problem, end
        if end < len(text) - 3:
            assert is_cut_short(part), end
    for other in ("v1.AAAA", text[:60] + "!", text):
        assert not is_cut_short(other)


@pytest.mark.parametrize("text", [TOKEN, bound_token("2026-sign")], ids=["encrypted", "signed"])
def test_everything_that_was_appended_is_called_appended(text: str) -> None:
    for extra in ("AAAA", "A" * 40, "sb1x"):
        anatomy = take_apart(text + extra)
        problem = anatomy.text_problem or anatomy.frame_problem
        assert problem is not None
        assert "something was appended" in problem


def test_the_parts_of_a_token_are_all_of_it() -> None:
    for text in (TOKEN, bound_token("2026-sign")):
        anatomy = take_apart(text)
        assert anatomy.message is not None
        # Besides the parts there are tags and lengths: 9 bytes for one mode, 8 for the other.
        assert len(anatomy.message) - sum(anatomy.parts.values()) in {8, 9}
        assert anatomy.header is not None


@given(st.text() | st.binary().map(lambda data: "sb1." + data.hex()))
def test_any_text_can_be_taken_apart(text: str) -> None:
    anatomy = take_apart(text)
    assert (anatomy.frame is not None) == is_whole(text)
    assert anatomy.frame is None or anatomy.parts
