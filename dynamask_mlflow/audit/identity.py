"""What an audit is of: a model version, a dataset (site and content), a window and a configuration."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dynamask_mlflow._provenance import digest
from dynamask_mlflow.audit.errors import AuditError

EXPERIMENT = "dynamask-audits"  # of MLflow, where audits and references go unless told otherwise
DEFAULT_SITE = "default"
_SITE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}")


@dataclass(frozen=True, kw_only=True)
class AuditIdentity:
    """What makes one audit another one than the next.

    Attributes:
        model, version, source: the version and what is registered under it.
        site: where the stays come from, for instance a hospital. content: a digest of the stays.
        window, split: which stays. settings: a digest of the configuration. reference: the run of the reference.
    """

    model: str
    version: str
    source: str
    site: str
    window: str
    split: str | None
    content: str
    settings: str
    reference: str

    @property
    def key(self) -> str:
        """Of the run: the same audit has the same run."""
        return digest(["audit", self.series, self.window, self.content, self.reference])

    @property
    def slot(self) -> str:
        """Of all audits of one window: with other data, or another reference, the later one supersedes the earlier."""
        return digest(["slot", self.series, self.window])

    @property
    def series(self) -> str:
        """Of all windows that are followed over time."""
        return digest(["series", self.model, self.version, self.source, self.site, self.split, self.settings])


def check_site(site: str) -> str:
    """The name of a site, which stands in tags."""
    if not _SITE.fullmatch(site):
        raise AuditError(
            f"Expected a site of at most 50 letters, digits, '.', '_' and '-', such as ward-3, but got {site!r}."
        )
    return site


def site_tag(tag: str, site: str) -> str:
    """A tag of the version, kept for each site; that of the default site has the plain name."""
    return tag if site == DEFAULT_SITE else f"{tag}.{site}"
