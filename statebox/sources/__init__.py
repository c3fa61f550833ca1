"""Where a live keyring comes from, and when to look again.

One text names any place: a path, `file:PATH`, `env:NAME`, `cmd:COMMAND...`, `redis://...`. At run
time a place is only ever read. What writes to one is the command line.
"""

from statebox.sources.address import open_source as open_source
from statebox.sources.live import LiveSource as LiveSource
from statebox.sources.live import Source as Source

__all__ = ["LiveSource", "Source", "open_source"]
