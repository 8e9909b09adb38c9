"""`dynamask-mlflow sign`: vouch for a registered version."""

from __future__ import annotations

import json

import click

from dynamask_mlflow.cli.common import AS_JSON, TRACKING, reported, track


@click.command()
@click.argument("model_uri")
@TRACKING
@AS_JSON
def sign(model_uri: str, tracking_uri: str | None, as_json: bool) -> None:
    """Sign every file of a registered version with the key in DYNAMASK_SIGNING_KEY.

    Audits with `--trust signed` load signed versions with their code, and refuse all others.

    \b
    Example:
      DYNAMASK_SIGNING_KEY=... dynamask-mlflow sign models:/icu-mortality/3
    """
    from dynamask_mlflow.audit.models import resolve_model
    from dynamask_mlflow.tracking.signatures import sign_version

    with reported(as_json):
        track(tracking_uri)
        ref = resolve_model(model_uri)
        signature = sign_version(ref.name, ref.version)
    if as_json:
        click.echo(json.dumps({"model_uri": ref.uri, "signature": signature}))
        return
    click.echo(f"{ref.uri} is signed: {signature[:16]}...")
