"""Credentials out of URIs, DSNs, headers and error texts, before they are printed, logged or stored."""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

from dynamask_mlflow._printable import printable

HIDDEN = "***"

# Every repetition is bounded or possessive: a hostile text must not take long.
_WORD = re.compile(r"(?<![\w.\-])(-{0,2})([\w.][\w.\-]*+)")
_KEY = re.compile(
    r"(?i)password|passwd|passphrase|secret|credential|private[_\-]?key|__extra__"
    r"|(?:token|pwd|signature|(?:api|access|account|signing|encryption|fernet|ssh|subscription|master|shared|storage|hmac)"
    r"[_\-]?key)(?:s|[_\-]\w+)?$"
    r"|(?:^|[_\-.])(?:sig|pass|passcode|pw|auth|salt|otp|jwt|sas|pat|bearer|verifier|session_?id)$"
)
# The last form is that of pairs: ("password", "x").
_EQUALS = re.compile(r"\\{0,8}[\"']?\s{0,20}+(?:=>|[=:])\s{0,20}+|[\"']\s{0,20}+,\s{0,20}+(?=[\"'])")
_OPEN_VALUE = re.compile(r"(?![\"'{*])[^;=\n]{0,500}(?=;)")  # ODBC: a value may hold spaces and ends with a semicolon
_VALUE = re.compile(
    r"(\\{1,8}[\"'])(?:(?!\1).)*+(?:\1)?"  # JSON within JSON
    r"|[|>][+\-]?[ \t]*+(?:\n[ \t]++[^\n]*+)++"  # a block of YAML
    r"|\"\"\"(?:[^\"]|\"(?!\"\"))*+(?:\"\"\")?"
    r"|[bBrRuU]{0,2}(?:\"(?:[^\"\\]|\\.)*+\"?|'(?:[^'\\]|\\.)*+'?)|\{[^}]*+\}?|\([^)]*+\)?|\[[^\]]*+\]?|[^\s&;,\"'})\]]++"
)
_ARGUMENT = re.compile(r"\s{1,20}+(?![-\s])")

_SCHEME = re.compile(r"\b([A-Za-z][A-Za-z0-9+.\-]{0,40}:/{2,})([^\s\"'<>]++)")
_ORACLE = re.compile(r"(?i)\b(jdbc:oracle:\w{1,20}:)[^\s@]{0,500}@")
# What paths make of an address: `Path("http://ann:x@host")` has one slash, and "//ann:x@host" is an address as well.
_FEW_SLASHES = re.compile(
    r"((?<![\w/:])//|\b[A-Za-z][A-Za-z0-9+.\-]{1,40}:/)[^\s/@:\"']{0,100}:[^\s/@]{1,300}@(?=[\w\[])"
)
_TAG = re.compile(r"<([\w.:\-]{1,60})>[^<>]++(?=</\1>)")
_CALL = re.compile(r"\b(\w{0,40}Auth\()[^)\n]++")
_PEM = re.compile(r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)[^-]*+")
_SAID = re.compile(
    r"(?i)\b((?:password|passphrase|token|secret|api key)\s{1,5}(?:(?:is|was)\s{1,5})?(?=['\"])"
    r"|(?:password|passphrase) is\s{1,5})"
    r"(\"[^\"\n]{1,300}\"|'[^'\n]{1,300}'|[^\s'\"]{1,300})"
)
_BARE = re.compile(r"(?<![\w/@.:\-])[^\s/@:\"'(<=]{1,100}:[^\s/@]{1,300}@(?=[\w\[])")
_HEADER = re.compile(
    r"(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-[\w\-]{0,40}(?:key|token|auth)[\w\-]{0,40})"
    r"([\"']?\s{0,20}[:=]\s{0,20})([\"']?)[^\"'\n\r}]++"
)
_DIGEST = re.compile(r"\b(Digest\s{1,5})(?:\w{1,20}=(?:\"[^\"\n]{0,500}\"|[^\s,\"]{1,500})(?:,\s{0,5})?){1,20}+")
_COMMAND = re.compile(  # curl -u ann:x, sshpass -p x, mysql -px
    r"(?<!\S)((?:-u|-U|--user|--proxy-user)(?:=|\s{0,5}+))[^\s:/=]{1,100}:[^\s]{1,300}"
    r"|\b((?:sshpass|mysql|mysqldump|mariadb)\b[^\n]{0,100}?\s-p\s{0,3}+)[^\s\-][^\s]{0,300}"
)
_SCHEME_WORD = re.compile(
    r"\b([Bb]earer|[Bb]asic|[Nn]egotiate|[Aa]pi-?[Kk]ey)\s{1,20}(?=\S{0,500}[0-9A-Z=._\-])[A-Za-z0-9._~+/\-]{6,}=*"
)
_QUERY_KEY = re.compile(r"(?i)([?&](?:key|code|pass)=)[^\s&\"']++")
_WEBHOOK = re.compile(  # addresses whose path is the secret
    r"(?i)\b(hooks\.slack\.com/(?:services|workflows|triggers)/|(?:discord|discordapp)\.com/api/webhooks/"
    r"|[\w.\-]{1,80}webhook\.office\.com/webhookb2/|api\.telegram\.org/bot"
    r"|with url: /(?:(?:services|workflows|triggers|api/webhooks|webhookb2|integration)/|bot)"
    r"|events\.pagerduty\.com/integration/)"
    r"[^\s\"'<>)]++"
)
_KNOWN = re.compile(
    r"\b(?:eyJ[\w\-]{8,}+\.[\w\-]++\.[\w\-]*+|dapi[0-9a-f]{32}(?:-\d)?|A[KS]IA[0-9A-Z]{16}|gh[pousr]_\w{20,}+"
    r"|github_pat_\w{20,}+|glpat-[\w\-]{16,}+|hf_\w{20,}+|npm_\w{30,}+|pypi-[\w\-]{20,}+|hvs\.[\w\-]{20,}+|dop_v1_[0-9a-f]{40,}+"
    r"|xox[abprs]-[\w\-]{10,}+|xapp-[\w\-]{10,}+|glsa_\w{20,}+|[sr]k_(?:live|test)_\w{16,}+|sk-[\w\-]{20,}+"
    r"|ya29\.[\w\-]{20,}+|AIza[\w\-]{30,}+)"
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
    return re.sub(r"[^\s\"']++", _decoded, cleaned)


def _cleaned(text: str) -> str:
    text = _PEM.sub(rf"\1{HIDDEN}", text)
    text = _TAG.sub(_tag, text)
    text = _DIGEST.sub(rf"\1{HIDDEN}", text)
    text = _COMMAND.sub(lambda found: f"{found.group(1) or found.group(2)}{HIDDEN}", text)
    text = _HEADER.sub(rf"\1\2\3{HIDDEN}", text)
    text = _SCHEME_WORD.sub(rf"\1 {HIDDEN}", text)
    text = _ORACLE.sub(r"\1@", text)
    text = _SCHEME.sub(_address, text)
    text = _FEW_SLASHES.sub(r"\1", text)
    text = _BARE.sub("", text)
    text = _without_values(text)
    text = _CALL.sub(rf"\1{HIDDEN}", text)
    text = _SAID.sub(rf"\1{HIDDEN}", text)
    text = _QUERY_KEY.sub(rf"\1{HIDDEN}", text)
    text = _WEBHOOK.sub(rf"\1{HIDDEN}", text)
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


def _tag(found: re.Match[str]) -> str:
    """An element of XML whose name says that it holds a credential, without it."""
    return f"<{found.group(1)}>{HIDDEN}" if _KEY.search(found.group(1)) else found.group()


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
    if "%" not in word:
        return word
    for _ in range(3):
        plain = unquote(plain)
        if _cleaned(plain) != plain:
            return _cleaned(unquote_plus(plain))
    return word


def first_line(error: BaseException) -> str:
    """The first line of an error's text, without credentials; of a long one the middle is left out."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return printable(without_secrets(lines[0]), 300)
