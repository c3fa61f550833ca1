"""What pip installs, tried from a wheel: never from the checkout."""

import email
import email.message
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CORE = {"cryptography", "cbor2"}
EXTRAS = {"cli", "mcp", "jwt", "redis", "otel", "gateway", "all"}

PUBLIC = {
    "Continuation",
    "Key",
    "Keyring",
    "Request",
    "Statebox",
    "StateboxError",
    "KeyringError",
    "SealError",
    "OpenError",
    "ClaimError",
    "MalformedTokenError",
    "TokenTooLargeError",
    "UnknownKeyError",
    "RevokedKeyError",
    "ExpiredKeyError",
    "AuthenticationError",
    "ReplayedTokenError",
    "GuardUnavailableError",
    "AudienceError",
    "ExpiredTokenError",
    "FutureTokenError",
    "ExpiredFlowError",
    "TooManyRoundsError",
    "PrincipalError",
    "RequestError",
}


def pip(*arguments: str | Path) -> None:
    """Run pip without an index: whatever is needed to build is in the environment already."""
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", folder, ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def metadata(wheel: Path, names: set[str]) -> email.message.Message:
    (name,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    with zipfile.ZipFile(wheel) as archive:
        return email.message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    pip("install", "--no-deps", "--no-index", "--no-compile", "--target", folder, wheel)
    return folder


def python(installed: Path, code: str) -> str:
    """Run code in a fresh interpreter that finds statebox in the installed wheel; return stdout."""
    code = f"import sys; sys.path.insert(0, {str(installed)!r})\n{code}"
    done = subprocess.run(
        [sys.executable, "-I", "-W", "error", "-c", code],
        cwd=installed,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


LOADED_BY = """
before = set(sys.modules)
import {module}
assert {module}.__file__.startswith(sys.path[0]), {module}.__file__
loaded = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(*loaded - set(sys.stdlib_module_names))
"""

# An interpreter in which nothing but the core dependencies can be imported.
NOTHING_BUT_CORE = """
import importlib.abc

class Absent(importlib.abc.MetaPathFinder):
    core = {"statebox", "statebox_cli", "cryptography", "cbor2", "cffi", "_cffi_backend"}

    def find_spec(self, fullname, path=None, target=None):
        name = fullname.partition(".")[0]
        if name not in self.core and name not in sys.stdlib_module_names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


def test_the_wheel_holds_statebox_and_statebox_cli_and_nothing_else(names: set[str]) -> None:
    top = {name.partition("/")[0] for name in names}
    assert top == {"statebox", "statebox_cli", "statebox-0.1.0.dist-info"}


def test_the_wheel_holds_every_source_file_and_no_other(names: set[str]) -> None:
    sources = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("statebox/**/*.py")}
    sources |= {
        path.relative_to(ROOT / "cli").as_posix() for path in ROOT.glob("cli/statebox_cli/**/*.py")
    }
    assert sources
    assert {name for name in names if name.endswith(".py")} == sources


def test_the_wheel_says_that_it_is_typed_and_under_which_licence(names: set[str]) -> None:
    assert "statebox/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_version_is_the_one_that_the_library_names(
    metadata: email.message.Message, installed: Path
) -> None:
    version = python(installed, "import statebox; print(statebox.__version__)").strip()
    assert metadata["Version"] == version


def test_the_core_requires_cryptography_and_cbor2_and_nothing_else(
    metadata: email.message.Message,
) -> None:
    required = {
        re.split(r"[^\w.-]", line)[0]
        for line in metadata.get_all("Requires-Dist", [])
        if "extra ==" not in line
    }
    assert required == CORE


def test_the_extras_are_those_of_the_design(metadata: email.message.Message) -> None:
    assert set(metadata.get_all("Provides-Extra", [])) == EXTRAS


def test_the_extra_all_is_every_other_extra() -> None:
    (everything,) = PYPROJECT["project"]["optional-dependencies"]["all"]
    assert everything == "statebox[cli,mcp,jwt,redis,otel,gateway]"


def test_an_install_lands_no_other_module_in_site_packages(installed: Path) -> None:
    assert {path.name for path in installed.iterdir()} == {
        "bin",
        "statebox",
        "statebox_cli",
        "statebox-0.1.0.dist-info",
    }


def test_importing_statebox_brings_in_the_core_dependencies_only(installed: Path) -> None:
    loaded = set(python(installed, LOADED_BY.format(module="statebox")).split())
    assert {"statebox", *CORE} <= loaded
    assert loaded - CORE <= {"statebox", "cffi", "_cffi_backend", "_openssl"}


def test_the_command_line_asks_for_no_extra_but_its_own_before_a_command_needs_it(
    installed: Path,
) -> None:
    code = """
from statebox_cli.main import main
sys.argv = ["statebox", "--help"]
try:
    main()
except SystemExit as end:
    assert end.code == 0
print("loaded:", *{name.partition(".")[0] for name in sys.modules})
"""
    shown, _, loaded = python(installed, code).partition("loaded:")
    assert "inspect" in shown
    assert {"statebox_cli", "click"} <= set(loaded.split())
    unasked = {"mcp", "mcp_types", "pydantic", "jwt", "redis", "opentelemetry", "starlette"}
    assert set(loaded.split()) & unasked == set()


def test_the_public_names_are_those_of_the_design_and_no_other(installed: Path) -> None:
    code = """
import statebox, types
for name, value in vars(statebox).items():
    if not (name.startswith("_") or isinstance(value, types.ModuleType)):
        print(name)
"""
    assert set(python(installed, code).split()) == PUBLIC


def test_sealing_and_opening_need_nothing_but_the_core(installed: Path) -> None:
    code = f"""{NOTHING_BUT_CORE}
from statebox import Keyring, Statebox
box = Statebox(Keyring.generate(), audience="billing")
print(box.open(box.seal({{"step": 1}}, principal=None, request=None), principal=None, request=None).state)
"""
    assert python(installed, code).strip() == "{'step': 1}"


def test_the_adapters_without_the_sdk_say_in_one_line_what_to_install(installed: Path) -> None:
    code = f"""{NOTHING_BUT_CORE}
try:
    import statebox.mcp
except ImportError as missing:
    print(missing)
"""
    said = python(installed, code)
    assert "statebox[mcp]" in said
    assert len(said.splitlines()) == 1


def test_the_command_line_without_click_says_what_to_install(installed: Path) -> None:
    code = f"""{NOTHING_BUT_CORE}
from statebox_cli.main import main
sys.stderr = sys.stdout
try:
    main()
except SystemExit as end:
    print("exit", end.code)
"""
    said = python(installed, code)
    assert "statebox[cli]" in said
    assert "Traceback" not in said
    assert said.splitlines()[-1] == "exit 1"


def test_the_constraints_pin_every_named_dependency_and_name_no_place() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [pin for pin in pins if not re.fullmatch(r"[\w.-]+==[\w.+!]+", pin)] == []
    pinned = {canonical(pin.partition("==")[0]) for pin in pins}
    groups = PYPROJECT["dependency-groups"].values()
    extras = PYPROJECT["project"]["optional-dependencies"].values()
    named = {
        canonical(re.split(r"[^\w.-]", requirement)[0])
        for requirements in [PYPROJECT["project"]["dependencies"], *groups, *extras]
        for requirement in requirements
        if isinstance(requirement, str)
    }
    assert named - pinned == {"statebox"}


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_no_file_names_a_place_on_the_machine_of_its_author() -> None:
    own = re.compile(
        "|".join(
            [r"(?<![\w.<])/(?:root|work|home/\w+|Users/\w+)/\w", r"\.\./shared/"]
            + [re.escape(str(place)) for place in (ROOT, Path.home()) if len(place.parts) > 2]
        )
    )
    found: list[str] = []
    for path in committed_files():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in own.finditer(text)]
    assert found == []


def committed_files() -> list[Path]:
    """Return the files of the checkout; a leading dot is the mark of a tool's own, except .ci."""
    entries = [path for path in ROOT.iterdir() if path.name == ".ci" or path.name[0] != "."]
    files = [path for entry in entries for path in [entry, *entry.rglob("*")] if path.is_file()]
    assert ROOT / "pyproject.toml" in files
    return [path for path in files if path.suffix != ".pyc"]
