"""One tree of errors: each with a code and a hint, none with anything that must not be told."""

import copy
import inspect
import pickle

import pytest

import statebox
from statebox import errors
from statebox.errors import (
    AudienceError,
    AuthenticationError,
    ClaimError,
    ExpiredFlowError,
    ExpiredKeyError,
    ExpiredTokenError,
    FutureTokenError,
    GuardUnavailableError,
    KeyringError,
    MalformedTokenError,
    OpenError,
    PrincipalError,
    ReplayedTokenError,
    RequestError,
    RevokedKeyError,
    SealError,
    StateboxError,
    TokenTooLargeError,
    TooManyRoundsError,
    UnknownKeyError,
)

BEFORE_AUTHENTICATION: dict[type[OpenError], str] = {
    MalformedTokenError: "malformed",
    TokenTooLargeError: "too_large",
    UnknownKeyError: "unknown_key",
    RevokedKeyError: "revoked_key",
    ExpiredKeyError: "expired_key",
    AuthenticationError: "authentication",
    ReplayedTokenError: "replayed",
    GuardUnavailableError: "guard_unavailable",
}
CLAIMS: dict[type[OpenError], str] = {
    AudienceError: "audience",
    ExpiredTokenError: "expired",
    FutureTokenError: "issued_in_future",
    ExpiredFlowError: "flow_expired",
    TooManyRoundsError: "too_many_rounds",
    PrincipalError: "principal",
    RequestError: "request",
}
CODES = BEFORE_AUTHENTICATION | CLAIMS
EVERY = [
    value
    for _, value in inspect.getmembers(errors, inspect.isclass)
    if issubclass(value, StateboxError)
]


@pytest.mark.parametrize(("error", "code"), CODES.items(), ids=CODES.values())
def test_each_refusal_has_the_code_that_the_product_page_names(
    error: type[OpenError], code: str
) -> None:
    assert error("no").code == code


@pytest.mark.parametrize("error", CODES, ids=CODES.values())
def test_one_except_clause_around_open_is_enough(error: type[OpenError]) -> None:
    assert issubclass(error, OpenError)


def test_only_what_is_found_after_authentication_is_a_claim_error() -> None:
    assert {error for error in CODES if issubclass(error, ClaimError)} == set(CLAIMS)


def test_every_error_has_one_root() -> None:
    # Of the classes that errors.py defines; before StateboxError stands Exception, and no ValueError.
    classes = [cls for _, cls in inspect.getmembers(errors, inspect.isclass)]
    defined = [cls for cls in classes if cls.__module__ == errors.__name__]
    assert {cls.__mro__[-4:-3] for cls in defined if cls is not StateboxError} == {(StateboxError,)}


def test_no_two_refusals_share_a_code() -> None:
    assert len(set(CODES.values())) == len(CODES)


@pytest.mark.parametrize("error", EVERY, ids=lambda cls: cls.__name__)
def test_every_error_is_public_and_has_a_hint_of_its_own(error: type[StateboxError]) -> None:
    assert getattr(statebox, error.__name__) is error
    assert error.default_hint
    assert "\n" not in error.default_hint


def test_every_leaf_says_what_to_do_in_words_of_its_own() -> None:
    hints = [error.default_hint for error in CODES]
    assert len(set(hints)) == len(hints)
    assert StateboxError.default_hint not in hints


def test_a_hint_can_be_given_and_the_message_is_the_text_of_the_error() -> None:
    error = KeyringError("the ring is bent", hint="Straighten it.")
    assert (str(error), error.message, error.hint) == (
        "the ring is bent",
        "the ring is bent",
        "Straighten it.",
    )


def test_a_seal_error_carries_the_code_and_the_path_it_was_given() -> None:
    error = SealError("unsupported_state", "$.a is a set", path="$.a")
    assert (error.code, error.path) == ("unsupported_state", "$.a")
    assert SealError("too_large", "long").path is None


def a_claim_error() -> ClaimError:
    error = PrincipalError("bound to another principal", key_id="key-1")
    error.flow, error.round, error.issued_at, error.expires_at = "00" * 8, 2, 10, 20
    error.token_id = "ab" * 16
    return error


RAISED = [
    KeyringError("no", hint="yes"),
    SealError("too_large", "no", hint="yes"),
    SealError("unsupported_state", "no", path="$.a"),
    MalformedTokenError("no", key_id="key-1"),
    a_claim_error(),
]


@pytest.mark.parametrize("error", RAISED, ids=lambda error: f"{type(error).__name__} {error.code}")
def test_an_error_survives_being_pickled_and_copied_with_all_it_says(error: StateboxError) -> None:
    """A process pool sends errors as pickles; one that cannot be read again hangs the pool."""
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301 - our own pickle
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)
