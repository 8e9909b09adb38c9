"""Credentials out of URIs, DSNs, headers and error texts, before they are printed, logged or stored."""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

HIDDEN = "***"

# Every repetition is bounded or possessive: a hostile text must not take long.
_WORD = re.compile(r"(?<![\w.\-])(-{0,2})([\w.][\w.\-]*+)")
_KEY = re.compile(
    r"(?i)password|passwd|passphrase|secret|credential|private[_\-]?key|__extra__"
    r"|(?:token|pwd|(?:api|access|account)[_\-]?key|signature)(?:s|[_\-]\w+)?$"
    r"|(?:^|[_\-])(?:sig|pass|pw|auth)$"
)
_EQUALS = re.compile(r"[\"']?\s{0,20}+(?:=>|[=:])\s{0,20}+")
_OPEN_VALUE = re.compile(r"(?![\"'{*])[^;=\n]{0,500}(?=;)")  # ODBC: a value may hold spaces and ends with a semicolon
_VALUE = re.compile(r"\"(?:[^\"\\]|\\.)*+\"?|'(?:[^'\\]|\\.)*+'?|\{[^}]*+\}?|[^\s&;,\"'})\]]++")
_ARGUMENT = re.compile(r"\s{1,20}+(?![-\s])")

_SCHEME = re.compile(r"\b([A-Za-z][A-Za-z0-9+.\-]{0,40}:/{2,})([^\s\"'<>]++)")
_ORACLE = re.compile(r"(?i)\b(jdbc:oracle:\w{1,20}:)[^\s@]{0,500}@")
_BARE = re.compile(r"(?<![\w/@.:\-])[^\s/@:\"'(<=]{1,100}:[^\s/@]{1,300}@(?=[\w\[])")
_HEADER = re.compile(
    r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-[\w\-]{0,40}(?:key|token|auth)[\w\-]{0,40})"
    r"([\"']?\s{0,20}[:=]\s{0,20})([\"']?)[^\"'\n\r}]++"
)
_SCHEME_WORD = re.compile(
    r"\b([Bb]earer|[Bb]asic|[Nn]egotiate)\s{1,20}(?=\S{0,500}[0-9A-Z=._\-])[A-Za-z0-9._~+/\-]{6,}=*"
)
_QUERY_KEY = re.compile(r"(?i)([?&](?:key|code|pass)=)[^\s&\"']++")
_KNOWN = re.compile(
    r"\b(?:eyJ[\w\-]{8,}+\.[\w\-]++\.[\w\-]*+|dapi[0-9a-f]{32}(?:-\d)?|AKIA[0-9A-Z]{16}|gh[pousr]_\w{20,}+"
    r"|glpat-[\w\-]{16,}+|hf_\w{20,}+|xox[abprs]-[\w\-]{10,}+|sk-[\w\-]{20,}+)"
)


def without_secrets(text: object) -> str:
    """The text with every credential removed (`user:password@`) or replaced by `***`.

    Example:
        >>> without_secrets("http://ann:hunter2@tracking:5000/?token=abc")
        'http://tracking:5000/?token=***'
    """
    cleaned = _cleaned(str(text))
    if "%" not in cleaned:
        return cleaned
    return re.sub(r"[^\s\"']*%[0-9A-Fa-f]{2}[^\s\"']*", _decoded, cleaned)


def _cleaned(text: str) -> str:
    text = _HEADER.sub(rf"\1\2\3{HIDDEN}", text)
    text = _SCHEME_WORD.sub(rf"\1 {HIDDEN}", text)
    text = _ORACLE.sub(r"\1@", text)
    text = _SCHEME.sub(_address, text)
    text = _BARE.sub("", text)
    text = _without_values(text)
    text = _QUERY_KEY.sub(rf"\1{HIDDEN}", text)
    return _KNOWN.sub(HIDDEN, text)


def _without_values(text: str) -> str:
    """`password=x`, `"token": "x"`, `--api-key x`, with the values hidden."""
    parts, done, place = [], 0, 0
    while found := _WORD.search(text, place):
        place = found.end()
        if not _KEY.search(found.group(2)[-200:]):
            continue
        start = _EQUALS.match(text, place) or (_ARGUMENT.match(text, place) if found.group(1) else None)
        if start is None:
            continue
        open_value = _OPEN_VALUE.match(text, start.end()) if "=" in start.group() else None
        value = open_value or _VALUE.match(text, start.end())
        if value is not None and value.end() > value.start():
            parts += [text[done : start.end()], HIDDEN]
            done = place = value.end()
    return "".join(parts) + text[done:]


def _address(found: re.Match[str]) -> str:
    """A URI without the part before the last @ of its authority."""
    scheme, rest = found.groups()
    authority = re.match(r"[^/?#]*", rest)
    host = authority.group() if authority else ""
    if "@" in host:
        return scheme + host.rpartition("@")[2] + rest[len(host) :]
    _, colon, port = host.partition(":")
    if colon and port and not port.isdigit() and not host.startswith("[") and "@" in rest:
        return scheme + rest.rpartition("@")[2]  # a slash or # within an unquoted password
    return found.group()


def _decoded(found: re.Match[str]) -> str:
    """The word as it is unless its percent-decoded form holds a credential; then that form, cleaned."""
    word = plain = found.group()
    for _ in range(3):
        plain = unquote(plain)
        if _cleaned(plain) != plain:
            return _cleaned(unquote_plus(plain))
    return word


def first_line(error: BaseException) -> str:
    """The first line of an error's text, without credentials."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return without_secrets(lines[0])[:300]
