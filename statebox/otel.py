"""OpenTelemetry: metrics out of events, and what became of a request on its span (extra `otel`).

    box = Statebox.from_source("file:keyring.json", audience="billing", on_event=otel.hook())

The MCP SDK opens a span for every request; the hook adds to it which flow the request belongs to,
so that one user's flow can be followed over all replicas. `docs/metrics.md` lists everything.

Attributes stay few: a kid, a method, a code. What a client may choose freely (a tool's name, a uri)
is in no metric, and a method that is none of the three that can carry a state is `_OTHER`.
"""

from __future__ import annotations

from typing import Final

try:
    from opentelemetry import metrics, trace
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.util.types import AttributeValue
except ImportError:
    raise ImportError(
        'statebox.otel needs the OpenTelemetry API: pip install "statebox[otel]"',
        name="opentelemetry",
    ) from None

from statebox.bindings import METHODS
from statebox.events import (
    Event,
    GuardFailed,
    Hook,
    KeyringFailed,
    KeyringReloaded,
    KeyWearing,
    Opened,
    Recalled,
    Rejected,
    Sealed,
    SealFailed,
)

_OTHER: Final = "_OTHER"  # OpenTelemetry's own word for a value outside of the known ones


def hook(meter_provider: MeterProvider | None = None) -> Hook:
    """Make an `on_event=` hook that counts, measures and marks the current span.

    Args:
        meter_provider: Where the instruments come from; default: the global one.

    Returns:
        The hook. Several boxes may share it.
    """
    return _Instruments(meter_provider)


class _Instruments:
    def __init__(self, meter_provider: MeterProvider | None) -> None:
        meter = metrics.get_meter("statebox", meter_provider=meter_provider)
        counter, histogram = meter.create_counter, meter.create_histogram
        self._sealed = counter("statebox.tokens.sealed", "{token}", "Tokens sealed.")
        self._opened = counter("statebox.tokens.opened", "{token}", "Tokens whose checks all held.")
        self._rejected = counter("statebox.tokens.rejected", "{token}", "Tokens refused.")
        self._recalled = counter(
            "statebox.tokens.recalled", "{token}", "Spent tokens answered with the first answer."
        )
        self._unsealed = counter("statebox.seal.failures", "{failure}", "States not sealed.")
        self._size = histogram("statebox.token.size", "By", "Length of the tokens sealed.")
        self._age = histogram("statebox.token.age", "s", "Time from seal to opening or refusal.")
        self._reloads = counter("statebox.keyring.reloads", "{reload}", "Keyrings taken over.")
        self._unread = counter(
            "statebox.keyring.failures", "{failure}", "Keyrings that could not be read or used."
        )
        self._wearing = counter(
            "statebox.key.warnings", "{warning}", "Keys near the end of what AES-GCM allows."
        )
        self._guard = counter(
            "statebox.guard.failures", "{failure}", "Times that a replay guard gave no answer."
        )

    def __call__(self, event: Event) -> None:
        match event:
            case Sealed() | Opened() | Rejected() | SealFailed() | Recalled():
                self._count_token(event)
            case KeyringReloaded():
                self._reloads.add(1, {"statebox.keyring.source": event.source})
            case KeyringFailed():
                self._unread.add(1, {"statebox.keyring.source": event.source})
            case KeyWearing():
                self._wearing.add(1, {"statebox.key_id": event.key_id})
            case GuardFailed():
                self._guard.add(1, {"statebox.guard.type": event.guard})

    def _count_token(self, event: Sealed | Opened | Rejected | SealFailed | Recalled) -> None:
        attributes: dict[str, AttributeValue] = {}
        if event.method is not None:
            attributes["mcp.method.name"] = event.method if event.method in METHODS else _OTHER
        if not isinstance(event, SealFailed | Recalled) and event.key_id is not None:
            attributes["statebox.key_id"] = event.key_id
        match event:
            case Sealed():
                self._sealed.add(1, attributes)
                self._size.record(event.size, attributes)
                outcome = "sealed"
            case Opened():
                self._opened.add(1, attributes)
                outcome = "opened"
            case Recalled():
                self._recalled.add(1, attributes)
                outcome = "recalled"
            case Rejected() | SealFailed():
                attributes["error.type"] = outcome = event.code
                (self._rejected if isinstance(event, Rejected) else self._unsealed).add(
                    1, attributes
                )
        if isinstance(event, Opened | Rejected) and event.age is not None:
            self._age.record(max(event.age, 0), attributes)
        _mark(event, outcome)


def _mark(event: Sealed | Opened | Rejected | SealFailed | Recalled, outcome: str) -> None:
    span = trace.get_current_span()
    if not span.is_recording():
        return
    span.set_attribute("statebox.outcome", outcome)
    if event.flow is not None:
        span.set_attribute("statebox.flow", event.flow)
    if event.round is not None:
        span.set_attribute("statebox.round", event.round)
    if not isinstance(event, SealFailed | Recalled) and event.key_id is not None:
        span.set_attribute("statebox.key_id", event.key_id)
