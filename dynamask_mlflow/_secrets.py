"""Credentials out of URIs, DSNs, headers and error texts, before they are printed, logged or stored."""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

HIDDEN = "***"

_KEY = (
    r"(?:[\w.\-]*(?:password|passwd|passphrase|secret|credential)[\w\-]*"
    r"|[\w.\-]*(?:token|pwd|api[_\-]?key|access[_\-]?key|account[_\-]?key|private[_\-]?key|signature)(?:s|[_\-]\w+)?"
    r"|[\w\-]*access[_\-]?key[_\-]?id|sig|pass|pw|auth|__extra__)"
)
_VALUE = r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\{[^}]*\}|[^\s&;,"'})\]]+)"""
_OPEN_VALUE = r"[^;=\n]*(?=;)"  # ODBC: a value may hold spaces and ends with a semicolon

_SCHEME = re.compile(r"\b([A-Za-z][A-Za-z0-9+.\-]*:(?:/{2,}))([^\s\"'<>]+)")
_ORACLE = re.compile(r"(?i)\b(jdbc:oracle:\w+:)[^\s@]*@")
_BARE = re.compile(r"(?<![\w/@.:\-])[^\s/@:\"'(<=]+:[^\s/@]+@(?=[\w\[])")
_HEADER = re.compile(
    r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-[\w\-]*(?:key|token|auth)[\w\-]*)"
    r"([\"']?\s*[:=]\s*)([\"']?)[^\"'\n\r}]+"
)
_SCHEME_WORD = re.compile(r"\b([Bb]earer|[Bb]asic|[Nn]egotiate)\s+(?=\S*[0-9A-Z=._\-])[A-Za-z0-9._~+/\-]{6,}=*")
_PAIR = re.compile(rf"(?i)(?<![\w.\-])({_KEY})([\"']?\s*(?:=>|[=:])\s*)(?:{_VALUE}|(?<=[=:])$)")
_OPEN_PAIR = re.compile(rf"(?i)(?<![\w.\-])({_KEY})(\s*=\s*)(?![\"'{{*])({_OPEN_VALUE})")
_QUERY_KEY = re.compile(r"(?i)([?&](?:key|code|sv?ig|pass)=)[^\s&\"']+")
_FLAG = re.compile(rf"(?i)(--?{_KEY})(\s+)(?!-)\S+")
_KNOWN = re.compile(
    r"\b(?:eyJ[\w\-]{8,}\.[\w\-]+\.[\w\-]*|dapi[0-9a-f]{32}(?:-\d)?|AKIA[0-9A-Z]{16}|gh[pousr]_\w{20,}"
    r"|glpat-[\w\-]{16,}|hf_\w{20,}|xox[abprs]-[\w\-]{10,}|sk-[\w\-]{20,})"
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
    text = _OPEN_PAIR.sub(rf"\1\2{HIDDEN}", text)
    text = _PAIR.sub(rf"\1\2{HIDDEN}", text)
    text = _QUERY_KEY.sub(rf"\1{HIDDEN}", text)
    text = _FLAG.sub(rf"\1\2{HIDDEN}", text)
    return _KNOWN.sub(HIDDEN, text)


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
