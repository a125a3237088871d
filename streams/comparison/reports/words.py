"""Words and figures that the reports share."""

from __future__ import annotations

from streams.comparison.differences import Difference
from streams.comparison.findings import WHY


def share(value: float | None) -> str:
    """Return a share to four digits, `-` where there is none; one that is not whole does not look so."""
    if value is None:
        return "-"
    return f"{min(value, 0.9999) if value < 1.0 else value:.4f}"


def why(difference: Difference) -> str:
    """Say in a few words what became of a request."""
    base, candidate = difference.base, difference.candidate
    if difference.status_changed:
        error = f" ({candidate.error})" if candidate.error else ""
        return f"{base.status or 'none'} → {candidate.status or 'none'}{error}"
    reasons = dict.fromkeys(WHY[lost.reason] for lost in difference.lost)
    return "; ".join(reasons)
