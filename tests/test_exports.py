"""The contract that users rely on: the names, signatures and defaults of the product page."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable

import pytest

import statebox
from statebox import Continuation, Key, Keyring, Request, Statebox

NO_DEFAULT = inspect.Parameter.empty
KEYWORD = inspect.Parameter.KEYWORD_ONLY


def parameters(call: Callable[..., object]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(call).parameters)


def test_a_box_takes_what_the_product_page_says_with_its_defaults() -> None:
    found = parameters(Statebox)
    assert found.pop("keyring").kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert {parameter.kind for parameter in found.values()} == {KEYWORD}
    import time

    assert {
        name: found[name].default
        for name in (
            "audience",
            "ttl",
            "max_flow_age",
            "max_rounds",
            "leeway",
            "max_token_chars",
            "clock",
        )
    } == {
        "audience": NO_DEFAULT,
        "ttl": 600,
        "max_flow_age": 3600,
        "max_rounds": 32,
        "leeway": 60,
        "max_token_chars": 65536,
        "clock": time.time,
    }


@pytest.mark.parametrize(("call", "first"), [(Statebox.seal, "state"), (Statebox.open, "token")])
def test_not_binding_is_written_down(call: Callable[..., object], first: str) -> None:
    found = parameters(call)
    assert list(found)[:2] == ["self", first]
    for name in ("principal", "request"):
        assert (found[name].kind, found[name].default) == (KEYWORD, NO_DEFAULT)
    if call is Statebox.seal:
        assert (found["after"].kind, found["after"].default) == (KEYWORD, None)


def test_a_live_box_is_made_from_the_name_of_a_source() -> None:
    assert list(parameters(Statebox.from_source))[:2] == ["source", "audience"]


def test_a_continuation_has_the_fields_that_the_product_page_names() -> None:
    public = {name for name in dir(Continuation) if not name.startswith("_")}
    assert public == {
        "state",
        "flow",
        "round",
        "issued_at",
        "expires_at",
        "deadline",
        "key_id",
        "token_id",
        "audience",
    }


def test_a_request_takes_method_target_and_arguments_or_params() -> None:
    found = parameters(Request)
    assert list(found) == ["method", "target", "arguments"]
    assert found["arguments"].default is None
    assert list(parameters(Request.from_params)) == ["method", "params"]


@pytest.mark.parametrize("name", ["generate", "load", "from_jwks", "to_jwks", "active", "get"])
def test_a_ring_has_the_methods_that_the_product_page_names(name: str) -> None:
    assert callable(getattr(Keyring, name))
    assert parameters(Keyring.generate)["alg"].default == "A256GCM"


@pytest.mark.parametrize("kind", [Key, Keyring, Request, Continuation, Statebox])
def test_no_public_class_is_there_to_be_inherited_from(kind: type) -> None:
    assert getattr(kind, "__final__", False)
    assert not hasattr(kind, "__dict__") or "__dict__" not in vars(kind)


def test_the_version_is_a_version() -> None:
    assert all(part.isdigit() for part in statebox.__version__.split("."))


def test_there_is_no_switch_that_turns_a_check_off() -> None:
    """Neither an argument nor a function, as `verify=False` or `decode_unverified` elsewhere."""
    words = (
        "verify",
        "unsafe",
        "insecure",
        "skip",
        "allow",
        "trust",
        "unverified",
        "no_",
        "disable",
    )
    names: set[str] = set()
    for module in pkgutil.iter_modules(statebox.__path__):
        if module.ispkg or module.name in ("__main__", "testing", "otel"):
            continue
        loaded = importlib.import_module(f"statebox.{module.name}")
        for name, value in vars(loaded).items():
            if getattr(value, "__module__", None) != loaded.__name__:
                continue
            names.add(name)
            if inspect.isfunction(value):
                names.update(parameters(value))
            if inspect.isclass(value):
                names.update(vars(value))
                names.update(parameters(value.__init__))
    assert len(names) > 100
    assert [name for name in names if name.lower().startswith(words)] == []
