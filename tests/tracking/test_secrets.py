"""No form of credential survives on its way to a screen, a log or a file."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from dynamask_mlflow._secrets import without_secrets

PW = "s3cr3t-Pw"
TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"

FORMS = [
    f"http://ann:{PW}@tracking:5000",
    f"https://{PW}@tracking",
    f"https://:{PW}@tracking",
    f"http://ann:{PW}@one:1 and http://bob:{PW}@two:2",
    f"http://ann:p@{PW}@tracking:5000/api",
    f"http://ann:p/{PW}@tracking:5000",
    f"http://ann:p#{PW}@tracking:5000",
    f"http://ann:p?{PW}@tracking:5000",
    f"http://ann%3A{PW}%40tracking:5000/x",
    f"http%3A%2F%2Fann%3A{PW}%40tracking",
    f"http%253A%252F%252Fann%253A{PW}%2540tracking",
    f"postgresql+psycopg2://ann:{PW}@db:5432/mlflow",
    f"postgresql://db/mlflow?user=ann&password={PW}",
    f"postgresql://db/mlflow?user=ann&pass%77ord={PW}",
    f"mysql://db/mlflow?user=ann;pwd={PW}",
    f"redis://:{PW}@cache:6379/0",
    f"mongodb+srv://ann:{PW}@cluster/db?retryWrites=true",
    f"jdbc:postgresql://db/mlflow?user=ann&password={PW}",
    f"jdbc:oracle:thin:ann/{PW}@db:1521:x",
    f"Server=db;Uid=ann;Pwd={PW};Database=x",
    f"Driver=x;PWD={{a;{PW}}};Server=db",
    f"Server=db;Password=two words {PW};Database=x",
    f"host=db user=ann password={PW} dbname=x",
    f"host=db user=ann password='it\\'s {PW}' dbname=x",
    f"host = db password = '{PW}'",
    f"ann:{PW}@tracking:5000",
    f"could not connect to ann:{PW}@tracking",
    f"https://store/x?X-Amz-Credential={PW}&X-Amz-Signature={PW}&X-Amz-Security-Token={PW}",
    f"https://account.blob.core.windows.net/c?sv=2024&sig={PW}&se=2026",
    f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={PW}==;EndpointSuffix=x",
    f"https://api/x?api_key={PW}&q=1",
    f"https://api/x?key={PW}",
    f"https://api/x?access_token={PW}#frag",
    f"Authorization: Bearer {PW}",
    f"Authorization: Basic {PW}==",
    f"Authorization: {PW}",
    f"{{'Authorization': 'Bearer {PW}', 'Accept': '*/*'}}",
    f'{{"authorization": "Token {PW}"}}',
    f"Proxy-Authorization: Basic {PW}",
    f"Cookie: session={PW}; other=1",
    f"Set-Cookie: session={PW}",
    f"X-API-Key: {PW}",
    f"the request was sent with bearer {PW}",
    f'{{"password": "{PW}", "login": "ann"}}',
    f'{{"login": "ann", "token": "a\\"{PW}"}}',
    f"MLFLOW_TRACKING_PASSWORD={PW}",
    f"MLFLOW_TRACKING_TOKEN: {PW}",
    f"AWS_SECRET_ACCESS_KEY={PW} AWS_SESSION_TOKEN={PW}",
    f"mlflow://ann:{PW}@tracking:5000/https",
    f"mlflow://ann@tracking/?token={PW}",
    f"mlflow://tracking/?__extra__=%7B%22token%22%3A+%22{PW}%22%7D",
    f"AIRFLOW_CONN_MLFLOW_DEFAULT='mlflow://ann:{PW}@tracking:5000'",
    f"mlflow server --password {PW} --port 1",
    f"curl --api-key {PW} x",
    f"client_secret={PW}",
    f"private_key => {PW}",
    f"s3://AKIAIOSFODNN7EXAMPLE:{PW}@bucket/x",
    f"dataset at sftp://ann:{PW}@host/x.npz, and password: {PW}",
    f"DYNAMASK_ID_SALT={PW}",
    f"DYNAMASK_SIGNING_KEY: {PW}",
    f"AIRFLOW__CORE__FERNET_KEY={PW}",
    f"subscription-key={PW}",
    f"AZURE_DEVOPS_EXT_PAT={PW}",
    f"wss://host/?jwt={PW}",
    f"session_id={PW}",
    f"<connection><password>{PW}</password></connection>",
    f"[('password', '{PW}'), ('host', 'x')]",
    f'{{\\"password\\": \\"{PW}\\"}}',
    f"password: |\n  {PW}\nhost: x",
    f"Invalid password '{PW}'",
    f"the password is {PW}",
    f"http:/ann:{PW}@host/x",
    f"//ann:{PW}@host/x",
    f"Api-Key {PW}",
    f"auth=('ann', '{PW}')",
    f"404 for url: https://hooks.slack.com/services/T0/B0/{PW}",
    f"HTTPSConnectionPool(host='hooks.slack.com', port=443): Max retries exceeded with url: /services/T0/B0/{PW} (...)",
    f"https://x.webhook.office.com/webhookb2/{PW}@{PW}/IncomingWebhook/{PW}",
    f"https://api.telegram.org/bot123:{PW}/sendMessage",
    f"https://discord.com/api/webhooks/1/{PW}",
    f"HTTPBasicAuth('ann', '{PW}')",
    f"passwords: ['x', '{PW}']",
    f"{{b'password': b'{PW}'}}",
    f'password = """{PW}"""',
    f'Authorization: Digest username="ann", realm="x", response="{PW}", qop=auth, nc=00000001',
    f"curl -u ann:{PW} http://host",
    f"curl --user ann:{PW} http://host",
    f"sshpass -p {PW} ssh host",
    f"mysql -h host -uann -p{PW} db",
    f"hmac_key={PW}",
    f"line one\nhttp://ann:{PW}@host\npassword={PW}\nend",
]


@pytest.mark.parametrize("text", FORMS)
def test_the_password_is_gone(text: str) -> None:
    cleaned = without_secrets(text)
    assert PW not in cleaned
    assert without_secrets(cleaned) == cleaned


@pytest.mark.parametrize(
    "text",
    [
        TOKEN,
        "dapi" + "0" * 32,
        "AKIAIOSFODNN7EXAMPLE",
        "ASIAIOSFODNN7EXAMPLE",
        "ghp_" + "a" * 36,
        "github_pat_11ABCDEFG0" + "a" * 22,
        "npm_" + "a" * 36,
        "ya29.a0AfH6SMBx-" + "a" * 22,
        "AIzaSyA" + "1" * 32,
        "hvs.CAESI" + "a" * 20,
        "glsa_" + "a" * 32,
    ],
)
def test_tokens_are_known_by_their_shape(text: str) -> None:
    assert text not in without_secrets(f"the server said: {text} is not valid")


def test_a_private_key_is_gone() -> None:
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEF\nAASCBKcwggSjAgEAAoIBAQ"
    for kind in ("PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY"):
        cleaned = without_secrets(f"read -----BEGIN {kind}-----\n{body}\n-----END {kind}----- from a file")
        assert "MIIE" not in cleaned
        assert "AAoIBAQ" not in cleaned


@pytest.mark.parametrize(
    "text",
    [
        "http://tracking:5000/#/experiments/1/runs/2",
        "https://host/path/a@b?x=1",
        "http://[::1]:5000/x",
        "models:/icu-mortality@champion",
        "models:/m-0123456789abcdef",
        "sqlite:////tmp/some folder/mlflow.db",
        "file:///data/icu",
        "runs:/0123/model",
        "mlflow-artifacts:/1/2/artifacts",
        "Expected instances >= 1, or None for all, but got 0.",
        "Metric with key='dynamask/area' was logged already.",
        "FATAL: password authentication failed for user ann",
        "Basic authentication is needed",
        "C:\\Users\\ann\\data",
        "C:/Users/ann@work/data",
        "Expected an output with output_key='los', primary_key=3, but its keys are 'a', 'b'",
        "the token was refused",
        "<td>key</td><b>password</b> is asked for",
        "HTTPConnectionPool(host='127.0.0.1', port=5000): Max retries exceeded with url: /api/2.0/mlflow/runs",
        "the digest a=b of the dataset",
        "python -u train.py --user ann",
        "mysql -h host -u ann",
        "100%25 of http://host/a%20b",
    ],
)
def test_what_is_no_secret_stays_as_it_is(text: str) -> None:
    assert without_secrets(text) == text


def test_the_rest_of_an_address_stays() -> None:
    assert without_secrets(f"http://ann:{PW}@tracking:5000/x?y=1") == "http://tracking:5000/x?y=1"
    assert without_secrets(f"host=db password={PW} dbname=x") == "host=db password=*** dbname=x"


@pytest.mark.parametrize(
    "piece",
    ["Digest ", "Digest a=b,", "-u ", "--user a", "mysql -", "sshpass ",
     "a", "a:", "%41", "%2525", "password", "token_", "http://", "a:b@", "password='", 'password="\\', "pwd=a ", "a.-",
     "eyJaaaaaaaa.", "-", "--password ", "authorization:", "password ", "pwd={", "bearer ", "x-", "?key=",
     "password=;", "%2", "Auth(", "token=(", "token=[", 'token="""'],
)  # fmt: skip
def test_a_hostile_text_takes_no_time(piece: str) -> None:
    begin = time.process_time()
    without_secrets(piece * (100_000 // len(piece)))
    assert time.process_time() - begin < 5


@pytest.mark.slow
def test_an_error_that_no_command_expected_is_printed_without_the_password() -> None:
    environment = {
        **os.environ,
        "MLFLOW_TRACKING_URI": "http://ann:hunter2@127.0.0.1:9",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    }
    command = [sys.executable, "-c", "from dynamask_mlflow.cli import main; main()"]
    done = subprocess.run(
        [*command, "experiment", "rare-feature", "--quick", "--log"], env=environment, capture_output=True, text=True
    )
    assert done.returncode != 0
    assert "127.0.0.1" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
