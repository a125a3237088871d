"""TLS, SASL and tokens: they work, what is wrong with them is said in one line, and no secret gets out."""

from __future__ import annotations

import asyncio
import datetime as dt
import gc
import ipaddress
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pipeline.adapters.milvus_collection import MilvusCollection
from pipeline.adapters.milvus_dense import MilvusDenseSearch
from pipeline.embedders.openai_compatible import OpenAICompatibleEmbedder
from pipeline.errors import SearchUnavailable
from pipeline.testing.search_port import asking, known_rows
from streams.cli import main
from streams.settings import loading
from streams.settings.model import MASK
from streams.worker.bootstrap import milvus_collection
from tests.adapters.milvus import collection_of, connected, searching
from tests.support.certificates import CertificateAuthority
from tests.support.fixtures import skip_unless_required
from tests.support.kafka_security import KafkaSecurity, Mechanism
from tests.support.kafka_server import KafkaServer, KafkaUnavailable
from tests.support.milvus_server import MilvusServer, MilvusUnavailable
from tests.support.ports import free_port, free_ports
from tests.support.worker import CommandOutput, StageTopics, WorkerProcess, run_command

SECRET = "hush-4f9c1d7e"
NO_ACCESS = "the search engine refuses the token, or its rights"
UNTRUSTED = "the search engine cannot be reached: its certificate is not trusted"
"""Part of every password, key and token here: where it is seen, something leaks."""

USER, PASSWORD, KEY_PASSWORD, API_KEY = "agent", f"{SECRET}-sasl", f"{SECRET}-key", f"{SECRET}-api"
MECHANISMS: tuple[Mechanism, ...] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PATIENCE_S = 25.0
"""Longer than connecting, finding out why not, and starting Python may take together on a busy machine."""

INSTANT = {
    "SEARCH_PORT": "tests.integration.search_ports:instant",
    "EMBEDDING_PROVIDER": "none",
    "STAGE_LOG_LEVEL": "debug",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """What clients and the broker show each other, as PEM files.

    Attributes:
        authority: Whoever signed the broker's certificates.
        stranger: Another authority.
        client: The client's own certificate.
        key: Its key, encrypted with `KEY_PASSWORD`.
        nonsense: A file that is not PEM.
    """

    authority: CertificateAuthority
    stranger: CertificateAuthority
    client: Path
    key: Path
    nonsense: Path


class SecureKafka(KafkaServer):
    """A broker with five listeners: plain, SASL over TLS, TLS, TLS with client certificates, and expired."""

    def __init__(self, directory: Path, files: Files) -> None:
        """Choose the ports of the listeners that are added here."""
        self._files = files
        self._tls_directory = directory
        self._more_ports = dict(zip(("TLS", "MUTUAL", "EXPIRED"), free_ports(3), strict=True))
        server = files.authority.issue("sasl")
        security = KafkaSecurity(certificate=server, mechanisms=MECHANISMS, users={USER: PASSWORD})
        super().__init__(directory, security=security)

    def at(self, listener: str) -> str:
        """Address of a listener."""
        if listener == "PLAIN":
            return self.bootstrap
        return self.secure_bootstrap if listener == "SASL" else f"127.0.0.1:{self._more_ports[listener]}"

    def _defaults(self) -> dict[str, str]:
        properties = super()._defaults()
        for name, port in self._more_ports.items():
            certificate = self._files.authority.issue(name.lower(), expired=name == "EXPIRED")
            directory = self._tls_directory / name
            directory.mkdir()
            properties |= KafkaSecurity(certificate=certificate).listener_properties(name, directory)
            properties["listeners"] += f",{name}://127.0.0.1:{port}"
            properties["listener.security.protocol.map"] += f",{name}:SSL"
        return properties | {
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.mutual.ssl.truststore.type": "PEM",
            "listener.name.mutual.ssl.truststore.location": str(self._files.client),
        }


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """Return the certificates and keys."""
    directory = tmp_path_factory.mktemp("pem")
    client, key = _client_certificate(directory)
    nonsense = directory / "nonsense.pem"
    nonsense.write_text("-----BEGIN NONSENSE-----\n")
    return Files(
        authority=CertificateAuthority(directory),
        stranger=CertificateAuthority(directory, "stranger"),
        client=client,
        key=key,
        nonsense=nonsense,
    )


@pytest.fixture(scope="module")
def broker(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureKafka]:
    """Yield the broker, a server of this module's own."""
    try:
        server = SecureKafka(tmp_path_factory.mktemp("kafka"), files)
    except KafkaUnavailable as missing:
        skip_unless_required("LOOKUP_REQUIRE_KAFKA", missing)
    with server:
        yield server


@pytest.fixture(scope="module")
def milvus(files: Files, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    """Yield a Milvus that speaks TLS and ask for a token."""
    try:
        server = MilvusServer(
            tmp_path_factory.mktemp("milvus"), authorization=True, certificate=files.authority.issue("milvus")
        )
    except MilvusUnavailable as missing:
        skip_unless_required("LOOKUP_REQUIRE_MILVUS", missing)
    with server:
        yield server


@pytest.fixture(scope="module")
def plain_stage(kafka: str) -> dict[str, str]:
    """Return the settings of topics that are there."""
    topics = StageTopics(bootstrap=kafka)
    created = run_command("topics", "--partitions", "1", environment=topics.environment)
    assert created.code == 0, created.stderr
    return topics.environment


Run = Callable[..., CommandOutput]


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Run `lookup-stage` in this process: all that a command does and writes, without starting Python."""

    def run(*arguments: str, environment: Mapping[str, str]) -> CommandOutput:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            code = _exit_code(arguments)
        output, errors = capfd.readouterr()
        return CommandOutput(code=code, stdout=output, stderr=errors)

    return run


def _exit_code(arguments: Sequence[str]) -> int:
    with warnings.catch_warnings():
        # Kafka's client does not wait for its sockets to close: the process ends anyway, but not here.
        warnings.simplefilter("ignore", ResourceWarning)
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        gc.collect()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def refused(run: Run, *command: str, environment: Mapping[str, str]) -> str:
    """Return the one line with which a command ends, with exit 2, in time, and without a secret."""
    before = time.monotonic()
    ended = run(*command, environment=environment)
    took_s = time.monotonic() - before
    assert (ended.code, ended.stdout) == (2, ""), ended.stderr
    assert took_s < PATIENCE_S
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert SECRET not in ended.stderr
    return ended.stderr


def sasl(broker: SecureKafka, files: Files, mechanism: str = "PLAIN") -> dict[str, str]:
    """Return the settings with which the listener for SASL over TLS is reached."""
    return {
        "KAFKA_BOOTSTRAP_SERVERS": broker.at("SASL"),
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA_SASL_MECHANISM": mechanism,
        "KAFKA_SASL_USERNAME": USER,
        "KAFKA_SASL_PASSWORD": PASSWORD,
        "KAFKA_SSL_CA_FILE": str(files.authority.certificate),
    }


def tls(broker: SecureKafka, files: Files, listener: str = "TLS") -> dict[str, str]:
    """Return the settings with which a listener for TLS is reached."""
    return {
        "KAFKA_BOOTSTRAP_SERVERS": broker.at(listener),
        "KAFKA_SECURITY_PROTOCOL": "SSL",
        "KAFKA_SSL_CA_FILE": str(files.authority.certificate),
    }


def client_certificate(files: Files) -> dict[str, str]:
    """Return the settings of the client's own certificate."""
    return {
        "KAFKA_SSL_CERTIFICATE_FILE": str(files.client),
        "KAFKA_SSL_KEY_FILE": str(files.key),
        "KAFKA_SSL_KEY_PASSWORD": KEY_PASSWORD,
    }


@pytest.mark.kafka
@pytest.mark.parametrize("way", ["TLS", "MUTUAL", *MECHANISMS])
def test_request_is_answered_over_every_protected_connection(
    broker: SecureKafka, files: Files, tmp_path: Path, run_here: Run, way: str
) -> None:
    """`topics`, the worker and `ask` work over TLS, client certificates and each SASL mechanism."""
    if way in MECHANISMS:
        access = sasl(broker, files, way)
    else:
        access = tls(broker, files, way) | (client_certificate(files) if way == "MUTUAL" else {})
    environment = StageTopics(bootstrap=broker.bootstrap).environment | access | INSTANT
    created = run_here("topics", "--partitions", "1", environment=environment)
    assert created.stdout.count("created") == 3, created.stderr
    with WorkerProcess(environment, tmp_path / "worker.log") as worker:
        answered = run_here("ask", "anybody there?", "--json", environment=environment)
    assert answered.code == 0, answered.stderr
    assert orjson.loads(answered.stdout)["status"] == "ok"
    assert SECRET not in worker.log + _all_of(created) + _all_of(answered)


def _all_of(output: CommandOutput) -> str:
    return output.stdout + output.stderr


@pytest.mark.kafka
class TestRefusedByKafka:
    """What is wrong with the connection to the brokers."""

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_wrong_password(self, broker: SecureKafka, files: Files, run_here: Run, mechanism: str) -> None:
        """The line names user and password, whichever the mechanism."""
        wrong = sasl(broker, files, mechanism) | {"KAFKA_SASL_PASSWORD": f"{SECRET}-wrong"}
        line = refused(run_here, "topics", environment=wrong)
        assert f"{broker.at('SASL')} refuses kafka.sasl-username = agent or kafka.sasl-password" in line

    @pytest.mark.parametrize(
        "command", [("ask", "anybody?"), ("dead-letters", "list"), ("dead-letters", "redrive")]
    )
    def test_every_command_says_so(
        self, broker: SecureKafka, files: Files, run_here: Run, command: tuple[str, ...]
    ) -> None:
        """All commands that connect tell alike."""
        wrong = sasl(broker, files) | {"KAFKA_SASL_USERNAME": "nobody"}
        assert "kafka.sasl-username = nobody" in refused(run_here, *command, environment=wrong)

    def test_password_that_is_not_set(self, broker: SecureKafka, files: Files, run_here: Run) -> None:
        """SASL without a password does not even connect."""
        unset = sasl(broker, files) | {"KAFKA_SASL_PASSWORD": ""}
        assert "kafka.sasl-password is not set" in refused(run_here, "topics", environment=unset)

    @pytest.mark.parametrize("trusted", ["stranger", None])
    def test_authority_that_is_not_known(
        self, broker: SecureKafka, files: Files, run_here: Run, trusted: str | None
    ) -> None:
        """The line names the authorities trusted and the broker."""
        file = "" if trusted is None else str(files.stranger.certificate)
        unknown = tls(broker, files) | {"KAFKA_SSL_CA_FILE": file}
        line = refused(run_here, "topics", environment=unknown)
        assert f"kafka.ssl-ca-file = {file or 'not set'}" in line
        assert f"{broker.at('TLS')} is not trusted: unable to get local issuer certificate" in line

    def test_certificate_that_has_expired(self, broker: SecureKafka, files: Files, run_here: Run) -> None:
        """The line says what is wrong with it."""
        line = refused(run_here, "topics", environment=tls(broker, files, "EXPIRED"))
        assert f"{broker.at('EXPIRED')} is not trusted: certificate has expired" in line

    @pytest.mark.parametrize(
        ("listener", "protocol"),
        [
            ("TLS", "PLAINTEXT"),
            ("SASL", "SSL"),
            ("PLAIN", "SASL_SSL"),
            ("TLS", "SASL_SSL"),
            ("PLAIN", "SSL"),
            ("MUTUAL", "SSL"),
        ],
    )
    def test_protocol_that_is_not_the_listeners(
        self, broker: SecureKafka, files: Files, run_here: Run, listener: str, protocol: str
    ) -> None:
        """The line names the protocol: nothing hangs on a peer that speaks another one."""
        other = {"KAFKA_SECURITY_PROTOCOL": protocol, "KAFKA_BOOTSTRAP_SERVERS": broker.at(listener)}
        line = refused(run_here, "topics", environment=sasl(broker, files) | other)
        assert f"kafka.security-protocol = {protocol}: {broker.at(listener)}" in line

    def test_worker_ends_before_it_begins(self, broker: SecureKafka, files: Files) -> None:
        """A worker that may not connect ends like any other command."""
        wrong = sasl(broker, files) | {"KAFKA_SASL_PASSWORD": f"{SECRET}-wrong"}
        plain = {"KAFKA_BOOTSTRAP_SERVERS": broker.at("TLS")}
        assert "kafka.sasl-password" in refused(run_command, "worker", environment=wrong)
        assert "kafka.security-protocol" in refused(run_command, "worker", environment=plain)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"KAFKA_SSL_CA_FILE": "/nowhere/ca.pem"}, "kafka.ssl-ca-file = /nowhere/ca.pem: cannot be read"),
        ({"KAFKA_SSL_CA_FILE": "{nonsense}"}, "kafka.ssl-ca-file = {nonsense}: must hold certificates"),
        ({"KAFKA_SSL_CERTIFICATE_FILE": "/nowhere"}, "kafka.ssl-certificate-file = /nowhere: cannot be"),
        ({"KAFKA_SSL_CERTIFICATE_FILE": "{nonsense}"}, "kafka.ssl-certificate-file = {nonsense}: must"),
        ({"KAFKA_SSL_CERTIFICATE_FILE": ""}, "kafka.ssl-certificate-file is not set"),
        ({"KAFKA_SSL_KEY_FILE": "/nowhere"}, "kafka.ssl-key-file = /nowhere: cannot be read"),
        ({"KAFKA_SSL_KEY_FILE": "/"}, "kafka.ssl-key-file = /: cannot be read"),
        ({"KAFKA_SSL_KEY_FILE": "{nonsense}"}, "kafka.ssl-key-file = {nonsense}: must be PEM"),
        ({"KAFKA_SSL_KEY_PASSWORD": ""}, "kafka.ssl-key-password"),
        ({"KAFKA_SSL_KEY_PASSWORD": f"{SECRET}-wrong"}, "kafka.ssl-key-password"),
    ],
)
def test_file_that_cannot_be_used_is_named_with_its_setting(
    files: Files, run_here: Run, changed: dict[str, str], complaint: str
) -> None:
    """Whatever is wrong with a file is told before anything connects, and no password is asked for."""
    good = {
        "KAFKA_BOOTSTRAP_SERVERS": f"127.0.0.1:{free_port()}",
        "KAFKA_SECURITY_PROTOCOL": "SSL",
        "KAFKA_SSL_CA_FILE": str(files.authority.certificate),
        **client_certificate(files),
    }
    named = {name: value.format(nonsense=files.nonsense) for name, value in changed.items()}
    line = refused(run_here, "topics", environment=good | named)
    assert complaint.format(nonsense=files.nonsense) in line


@pytest.mark.milvus
class TestRefusedByMilvus:
    """What is wrong with the connection to the search engine."""

    @pytest.mark.parametrize(
        ("changed", "complaint"),
        [
            ({"MILVUS_TOKEN": f"root:{SECRET}-wrong"}, f"{NO_ACCESS}: see milvus.token"),
            ({"MILVUS_TOKEN": ""}, f"{NO_ACCESS}: see milvus.token"),
            ({"MILVUS_CA_FILE": "{stranger}"}, f"{UNTRUSTED}: see milvus.ca-file"),
            ({"MILVUS_CA_FILE": ""}, f"{UNTRUSTED}: see milvus.ca-file"),
            ({"MILVUS_CA_FILE": "/nowhere/ca.pem"}, "/nowhere/ca.pem cannot be read"),
        ],
    )
    def test_engine_that_does_not_let_the_worker_in(
        self,
        plain_stage: dict[str, str],
        files: Files,
        milvus: MilvusServer,
        changed: dict[str, str],
        complaint: str,
    ) -> None:
        """One line, whether the token or the certificate is at fault."""
        good = plain_stage | engine(milvus, files) | {"EMBEDDING_PROVIDER": "none"}
        named = {name: value.format(stranger=files.stranger.certificate) for name, value in changed.items()}
        line = refused(run_command, "worker", environment=good | named)
        assert complaint in line
        assert milvus.token not in line


@pytest.mark.milvus
async def test_token_that_is_refused_while_running_is_an_outage(milvus: MilvusServer, files: Files) -> None:
    """Rights and password may come back: nobody's question is at fault, and a probe is refused as well."""
    authority = str(files.authority.certificate)
    with (
        collection_of(milvus.uri, known_rows(), token=milvus.token, ca_file=authority) as collection,
        connected(collection) as admin,
    ):
        admin.create_user("reader", PASSWORD)
        admin.create_role("readers")
        admin.grant_role("reader", "readers")
        admin.grant_privilege("readers", "Collection", "*", collection.collection)
        admin.grant_privilege("readers", "Global", "DescribeCollection", "*")
        try:
            async with searching(replace(collection, token=f"reader:{PASSWORD}")) as port:
                assert len(await port.search(asking(limit=1), timeout_s=PATIENCE_S)) == 1
                admin.revoke_privilege("readers", "Collection", "*", collection.collection)
                await _is_let_in_no_more(port)
                admin.update_password("reader", PASSWORD, f"{PASSWORD}-2")
                await _is_let_in_no_more(port)
        finally:
            admin.revoke_role("reader", "readers")
            admin.drop_user("reader")


async def _is_let_in_no_more(port: MilvusDenseSearch) -> None:
    """Check how the port fails, once the engine has taken notice of what was revoked."""
    async with asyncio.timeout(PATIENCE_S):
        while await _is_let_in(port):  # noqa: ASYNC110 - the engine tells nobody
            await asyncio.sleep(0.1)
    for ask in (partial(port.search, asking()), port.probe):
        with pytest.raises(SearchUnavailable) as caught:
            await ask(timeout_s=PATIENCE_S)
        assert type(caught.value) is SearchUnavailable
        assert str(caught.value) == NO_ACCESS


async def _is_let_in(port: MilvusDenseSearch) -> bool:
    try:
        await port.search(asking(), timeout_s=PATIENCE_S)
    except SearchUnavailable:
        return False
    return True


def engine(milvus: MilvusServer, files: Files) -> dict[str, str]:
    """Return the settings with which Milvus is reached."""
    return {
        "MILVUS_URI": milvus.uri,
        "MILVUS_TOKEN": milvus.token,
        "MILVUS_CA_FILE": str(files.authority.certificate),
    }


@pytest.mark.kafka
@pytest.mark.milvus
def test_nothing_secret_is_logged_where_everything_is_protected(
    broker: SecureKafka, milvus: MilvusServer, files: Files, tmp_path: Path, run_here: Run
) -> None:
    """SASL, TLS, a token and an API key, all at once, work, and no command or log line shows any of them."""
    chunks = tmp_path / "chunks.jsonl"
    chunks.write_bytes(orjson.dumps({"docId": "a", "chunkIndex": 0, "content": "north", "source": "a.md"}))
    with embeddings() as (address, keys_seen):
        environment = {
            **StageTopics(bootstrap=broker.bootstrap).environment,
            **sasl(broker, files, "SCRAM-SHA-512"),
            **client_certificate(files),
            **engine(milvus, files),
            "EMBEDDING_PROVIDER": "openai",
            "EMBEDDING_BASE_URL": address,
            "EMBEDDING_API_KEY": API_KEY,
            "STAGE_LOG_LEVEL": "debug",
        }
        outputs = [
            run_here("topics", "--partitions", "1", environment=environment),
            run_command("index", str(chunks), environment=environment),
            run_here("config", environment=environment),
        ]
        with WorkerProcess(environment, tmp_path / "worker.log") as worker:
            outputs.append(run_here("ask", "anybody there?", environment=environment))
    assert [output.code for output in outputs] == [0, 0, 0, 0], outputs
    assert "north" in outputs[-1].stdout
    assert keys_seen == {f"Bearer {API_KEY}"}
    everything = worker.log + "".join(map(_all_of, outputs))
    assert SECRET not in everything
    assert milvus.token not in everything


@pytest.mark.kafka
def test_embedder_that_refuses_the_key_is_named_in_one_line(plain_stage: dict[str, str]) -> None:
    """Not even an endpoint that repeats the key gets it into the output."""
    with embeddings(status=401) as (address, _):
        environment = {
            "EMBEDDING_PROVIDER": "openai",
            "EMBEDDING_BASE_URL": address.replace("//", f"//user:{SECRET}@"),
            "EMBEDDING_API_KEY": API_KEY,
        }
        line = refused(run_command, "worker", environment=plain_stage | environment)
    assert f"embeddings from {address}" in line
    assert "HTTP 401" in line


SECRETS = {
    "KAFKA_SASL_PASSWORD": PASSWORD,
    "KAFKA_SSL_KEY_PASSWORD": KEY_PASSWORD,
    "MILVUS_TOKEN": f"root:{SECRET}",
    "EMBEDDING_API_KEY": API_KEY,
}
IN_ADDRESSES = {
    "MILVUS_URI": f"https://root:{SECRET}@milvus:19530",
    "EMBEDDING_BASE_URL": f"https://user:{SECRET}/@embeddings/v1",
}


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_config_masks_secrets(run_here: Run, form: tuple[str, ...]) -> None:
    """`config` shows that a secret is set and where, and not what it is, in an address either."""
    printed = run_here("config", *form, environment=SECRETS | IN_ADDRESSES)
    assert printed.code == 0, printed.stderr
    assert SECRET not in _all_of(printed)
    assert printed.stdout.count(MASK) == len(SECRETS | IN_ADDRESSES)
    if form:
        entries = orjson.loads(printed.stdout)
        assert entries["kafka.sasl-password"]["from"] == "environment KAFKA_SASL_PASSWORD"


def test_objects_that_hold_secrets_do_not_show_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither `repr` nor `str` of settings, collection or embedder has a secret in it."""
    for name, value in (SECRETS | IN_ADDRESSES).items():
        monkeypatch.setenv(name, value)
    settings = loading.load()
    objects = [settings, settings.kafka, settings.milvus, settings.embedding, milvus_collection(settings)]
    objects.append(MilvusCollection(uri=IN_ADDRESSES["MILVUS_URI"], token=SECRET, collection="any"))
    objects.append(
        OpenAICompatibleEmbedder(
            base_url=IN_ADDRESSES["EMBEDDING_BASE_URL"].replace("/@", "@"), model="any", api_key=API_KEY
        )
    )
    for each in objects:
        assert SECRET not in repr(each) + str(each)
    assert settings.kafka.sasl_password is not None
    assert settings.kafka.sasl_password.get_secret_value() == PASSWORD


@pytest.mark.parametrize(
    "content",
    [
        f"kafka: {{sasl-password: [{SECRET}]}}",
        f"milvus: {{token: {{a: {SECRET}}}}}",
        f"kafka: {{sasl-passwort: {SECRET}}}",
        f"embedding: {{api-key: '{SECRET}', batch-size: 0}}",
        f"kafka: {{ssl-key-password: '{SECRET}', sasl-mechanism: PLAINLY}}",
        f"milvus: {{uri: ['http://root:{SECRET}@host']}}",
        f"kafka: {{sasl-password: '{SECRET}'\n",
        f"kafka: 'sasl-password={SECRET}'",
    ],
)
def test_file_with_a_mistake_beside_or_in_a_secret_does_not_show_it(
    tmp_path: Path, run_here: Run, content: str
) -> None:
    """The complaint about a file names what is wrong with it and quotes no secret."""
    file = tmp_path / "lookup-stage.yaml"
    file.write_text(content)
    refused(run_here, "--config", str(file), "config", environment={})


@contextmanager
def embeddings(*, status: int = 200) -> Iterator[tuple[str, set[str]]]:
    """Run an endpoint for embeddings that repeats the key it was shown; gives its address and those keys."""
    keys: set[str] = set()

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            keys.add(key := self.headers["Authorization"])
            texts = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            data = [{"index": index, "embedding": [1.0, 0.5, 0.25]} for index in range(len(texts))]
            body = orjson.dumps({"data": data, "you sent": key})
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Key", key)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", keys
        finally:
            server.shutdown()
            thread.join()


def _client_certificate(directory: Path) -> tuple[Path, Path]:
    """Write a certificate that signs itself, and its key, encrypted."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "client")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    certificate_file, key_file = directory / "client.pem", directory / "client.key"
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(KEY_PASSWORD.encode()),
        )
    )
    return certificate_file, key_file
