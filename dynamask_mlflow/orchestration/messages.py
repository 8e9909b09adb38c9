"""What the DAGs say about themselves in the UI."""

AUDIT_DOC = """\
### Does {model} still look at the same things?

Explains the stays of one window with dynamic masks, compares attention, predictions and inputs with the version's
reference at the site, and ends in a verdict: **ok** (proven), **warning** (predictions or inputs that matter moved),
**drift** (attention moved) or **inconclusive**.

| task | does | retry or rerun |
| --- | --- | --- |
| `prepare` | finds the window, pins the alias to a version, opens or resumes the MLflow run | the same run |
| `plan` | cuts the stays into shards | the same shards |
| `fit_shard` | fits the masks of one shard | a fitted shard is found, not fitted again |
| `report` | compares, decides, logs, tags, emits the asset `explanation_audit/{name}` | same values, one point |
| `alert` | tells when an episode begins, gets worse, lasts, ends; else skipped | nobody is told twice |
| `tell_failure` | tells that the audit could not run; skipped when it could | |
| `close_run` | closes a run that was left open, as failed | |

The window: what the form says, else the asset event's `window`, else the data interval, else the last full period.
A window without stays fails the run, for a green run that audited nothing would be a lie.
"""

REFERENCE_DOC = """\
### What is normal for {model}?

Looks at the version the alias points at. If it has no reference, or one that was explained with other settings, the
stays of the window `{window}` are explained and stored as its reference; else the run is skipped. Audits compare with
it.
"""

RECONCILE_DOC = """\
### Which windows of {model} were never audited?

Looks for windows that are over, have stays, and have no audit of exactly these stays with these settings against the
present reference; starts a run of `{audit}` for each, the oldest first.
"""
