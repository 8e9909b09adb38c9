"""What may leave: ids as keyed hashes, and failures without the values that an error's text may quote."""

from __future__ import annotations

import hmac
import logging
import os

from dynamask_mlflow._secrets import first_line
from dynamask_mlflow._settings import ConfigError

_logger = logging.getLogger(__name__)

SALT = "DYNAMASK_ID_SALT"
_LEAST = 16


def require_salt() -> bytes:
    """The key of the hashes; without one, ids could be found by trying them all.

    Raises:
        ConfigError: if the environment variable DYNAMASK_ID_SALT is not set.
    """
    salt = os.environ.get(SALT, "")
    if not salt.strip():
        raise ConfigError(
            f"Expected the environment variable {SALT} to hold a secret, since hash_ids is set, but it is empty. Make "
            'one with `python -c "import secrets; print(secrets.token_hex(16))"` and keep it: the same secret gives '
            "the same hashes."
        )
    return salt.encode()


def warn_of_short_salt() -> None:
    if len(require_salt()) < _LEAST:
        _logger.warning("dynamask: %s has fewer than %d characters, which can be guessed.", SALT, _LEAST)


def hashed(name: str) -> str:
    """A name that cannot be read back without the key in the environment."""
    return hmac.new(require_salt(), name.encode(), "sha256").hexdigest()[:16]


def stored_reason(error: BaseException) -> str:
    """Why nothing came of it, as registries and alerts may hold it: the text of an error of this package, of MLflow or
    of the system. Any other may be the model's, whose text may quote the values it was given: the type alone.

    >>> stored_reason(RuntimeError("bad lactate 19.25"))
    'RuntimeError in the model or the data; the log of the audit says more.'
    """
    writer = type(error).__module__.partition(".")[0]
    if writer in (__name__.partition(".")[0], "mlflow") or isinstance(error, OSError):
        return first_line(error)
    return f"{type(error).__name__} in the model or the data; the log of the audit says more."


def reason_of(error: BaseException) -> str:
    """Why an instance failed, in words of ours: the error's type, and its text only if the package wrote all of it.

    The text of a model's own error may quote the values it was given.
    """
    ours = type(error).__module__.partition(".")[0] == __name__.partition(".")[0]
    if ours and error.__cause__ is None and error.__context__ is None:
        return f"{type(error).__name__}: {error}"
    inner = error.__cause__ or error
    return f"{type(inner).__name__} in the model or the fit"
