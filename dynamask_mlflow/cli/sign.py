"""`dynamask-mlflow sign`: vouch for a registered version."""

from __future__ import annotations

import click

from dynamask_mlflow._secrets import without_secrets


@click.command()
@click.argument("model_uri")
def sign(model_uri: str) -> None:
    """Sign every file of a registered version with the key in DYNAMASK_SIGNING_KEY.

    Audits with `--trust signed` load signed versions with their code, and refuse all others.

    \b
    Example:
      DYNAMASK_SIGNING_KEY=... dynamask-mlflow sign models:/icu-mortality/3
    """
    from dynamask_mlflow.audit.errors import AuditError
    from dynamask_mlflow.audit.models import resolve_model
    from dynamask_mlflow.tracking.errors import UntrustedModelError
    from dynamask_mlflow.tracking.signatures import sign_version

    try:
        ref = resolve_model(model_uri)
        signature = sign_version(ref.name, ref.version)
    except (AuditError, UntrustedModelError) as error:
        raise click.ClickException(without_secrets(error)) from error
    click.echo(f"{ref.uri} is signed: {signature[:16]}...")
