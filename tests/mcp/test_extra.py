"""The extra: without the SDK the import fails in one line that names what to install."""

import subprocess
import sys

import pytest

import statebox.mcp


def said(program: str) -> str:
    """Run a program that must fail; give the last line that it said."""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert run.returncode == 1
    return run.stderr.splitlines()[-1]


@pytest.mark.parametrize("missing", ["mcp", "mcp.server.request_state", "mcp_types"])
def test_without_the_sdk_the_import_names_the_extra(missing: str) -> None:
    program = f"import sys; sys.modules[{missing!r}] = None; import statebox.mcp"
    assert said(program) == (
        'ImportError: statebox.mcp needs the MCP SDK 2.x: pip install "statebox[mcp]"'
    )


def test_another_missing_module_is_named_as_it_is() -> None:
    program = "import sys; sys.modules['pydantic'] = None; import statebox.mcp"
    assert "pydantic" in said(program)


def test_what_is_exported_is_there() -> None:
    assert sorted(statebox.mcp.__all__) == statebox.mcp.__all__
    assert all(hasattr(statebox.mcp, name) for name in statebox.mcp.__all__)
